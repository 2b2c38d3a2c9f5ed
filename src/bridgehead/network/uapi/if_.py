"""linux/if.h: flags and operational states of network interfaces."""

from typing import Final

IFF_UP: Final = 1
IFF_LOOPBACK: Final = 0x8
IFF_RUNNING: Final = 0x40
IFF_NOARP: Final = 0x80
IF_OPER_UP: Final = 6
