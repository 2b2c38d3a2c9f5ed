"""linux/netfilter/nfnetlink.h: netfilter's subsystems over netlink."""

from typing import Final

NFNETLINK_V0: Final = 0
NFNL_SUBSYS_CTNETLINK: Final = 1
NFNL_SUBSYS_IPSET: Final = 6
NFNL_SUBSYS_NFTABLES: Final = 10
NFNL_MSG_BATCH_BEGIN: Final = 16
NFNL_MSG_BATCH_END: Final = 17
NFNLGRP_NFTABLES: Final = 7
NFNLGRP_NFTRACE: Final = 9
