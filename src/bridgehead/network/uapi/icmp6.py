"""netinet/icmp6.h: types of ICMPv6 messages."""

from typing import Final

ND_ROUTER_SOLICIT: Final = 133
ND_REDIRECT: Final = 137
