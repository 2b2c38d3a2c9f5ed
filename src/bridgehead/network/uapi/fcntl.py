"""linux/fcntl.h: flags of calls that take a directory's descriptor."""

from typing import Final

AT_FDCWD: Final = -100
AT_EMPTY_PATH: Final = 0x1000
AT_RECURSIVE: Final = 0x8000
