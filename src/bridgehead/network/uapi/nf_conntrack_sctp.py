"""linux/netfilter/nf_conntrack_sctp.h: states of tracked SCTP associations."""

from typing import Final

SCTP_CONNTRACK_CLOSED: Final = 1
