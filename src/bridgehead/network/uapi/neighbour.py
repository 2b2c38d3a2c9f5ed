"""linux/neighbour.h: entries of the neighbour tables."""

from typing import Final

NDA_DST: Final = 1
NDA_LLADDR: Final = 2
NUD_PERMANENT: Final = 0x80
