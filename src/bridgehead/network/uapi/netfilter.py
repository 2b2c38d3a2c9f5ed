"""linux/netfilter.h: verdicts, hooks and protocol families of netfilter."""

from typing import Final

NF_DROP: Final = 0
NF_ACCEPT: Final = 1
NF_INET_PRE_ROUTING: Final = 0
NF_INET_LOCAL_OUT: Final = 3
NFPROTO_UNSPEC: Final = 0
NFPROTO_INET: Final = 1
NFPROTO_IPV4: Final = 2
NFPROTO_ARP: Final = 3
NFPROTO_NETDEV: Final = 5
NFPROTO_BRIDGE: Final = 7
NFPROTO_IPV6: Final = 10
