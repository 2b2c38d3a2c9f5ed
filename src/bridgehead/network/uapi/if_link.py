"""linux/if_link.h: network interfaces (links)."""

from typing import Final

IFLA_ADDRESS: Final = 1
IFLA_IFNAME: Final = 3
IFLA_MTU: Final = 4
IFLA_MASTER: Final = 10
IFLA_OPERSTATE: Final = 16
IFLA_LINKINFO: Final = 18
IFLA_AF_SPEC: Final = 26
IFLA_GROUP: Final = 27
IFLA_NET_NS_FD: Final = 28
IFLA_INFO_KIND: Final = 1
IFLA_INFO_DATA: Final = 2
IFLA_INET6_ADDR_GEN_MODE: Final = 8
IN6_ADDR_GEN_MODE_NONE: Final = 1
IFLA_BR_FORWARD_DELAY: Final = 1
