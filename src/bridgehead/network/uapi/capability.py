"""linux/capability.h: the version of the data of capset(2)."""

from typing import Final

_LINUX_CAPABILITY_VERSION_3: Final = 0x20080522
