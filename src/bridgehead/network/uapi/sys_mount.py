"""sys/mount.h: flags of umount2(2)."""

from typing import Final

MNT_DETACH: Final = 2
