"""linux/if_addr.h: addresses of network interfaces."""

from typing import Final

IFA_ADDRESS: Final = 1
IFA_LOCAL: Final = 2
IFA_CACHEINFO: Final = 6
IFA_FLAGS: Final = 8
IFA_F_NODAD: Final = 0x2
IFA_F_NOPREFIXROUTE: Final = 0x200
