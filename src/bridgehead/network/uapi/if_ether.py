"""linux/if_ether.h: Ethernet frames."""

from typing import Final

ETH_ALEN: Final = 6
ETH_P_ARP: Final = 0x0806
ETH_P_IPV6: Final = 0x86DD
