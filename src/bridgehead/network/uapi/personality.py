"""linux/personality.h: execution domains and flags of personality(2)."""

from typing import Final

PER_LINUX: Final = 0x0000
PER_LINUX32: Final = 0x0008
UNAME26: Final = 0x0020000
