"""linux/netfilter/nf_conntrack_common.h: states of tracked connections."""

from typing import Final

IP_CT_NEW: Final = 2
NF_CT_STATE_INVALID_BIT: Final = 1
IPS_SEEN_REPLY: Final = 2
IPS_ASSURED: Final = 4
