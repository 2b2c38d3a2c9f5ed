"""linux/veth.h: pairs of virtual Ethernet interfaces."""

from typing import Final

VETH_INFO_PEER: Final = 1
