"""linux/netfilter/nf_conntrack_common.h: states of tracked connections."""

from typing import Final

IPS_SEEN_REPLY: Final = 2
