"""netinet/icmp6.h: types and options of ICMPv6 messages."""

from typing import Final

ND_ROUTER_SOLICIT: Final = 133
ND_NEIGHBOR_SOLICIT: Final = 135
ND_NEIGHBOR_ADVERT: Final = 136
ND_REDIRECT: Final = 137

ND_OPT_SOURCE_LINKADDR: Final = 1
ND_OPT_TARGET_LINKADDR: Final = 2
