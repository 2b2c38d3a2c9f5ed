"""linux/openat2.h: how openat2(2) resolves a path."""

from typing import Final

RESOLVE_NO_MAGICLINKS: Final = 0x2
RESOLVE_NO_SYMLINKS: Final = 0x4
RESOLVE_BENEATH: Final = 0x8
RESOLVE_IN_ROOT: Final = 0x10
