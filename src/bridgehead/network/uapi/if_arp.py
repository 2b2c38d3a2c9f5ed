"""linux/if_arp.h: ARP packets."""

from typing import Final

ARPHRD_ETHER: Final = 1
ARPOP_REQUEST: Final = 1
ARPOP_REPLY: Final = 2
