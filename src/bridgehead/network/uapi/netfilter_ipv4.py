"""linux/netfilter_ipv4.h: priorities of hook functions."""

from typing import Final

NF_IP_PRI_RAW_BEFORE_DEFRAG: Final = -450
NF_IP_PRI_RAW: Final = -300
NF_IP_PRI_CONNTRACK: Final = -200
NF_IP_PRI_MANGLE: Final = -150
