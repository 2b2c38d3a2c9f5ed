"""asm-generic/ioctls.h: ioctls on terminals that Python's `termios` lacks."""

from typing import Final

TIOCSPTLCK: Final = 0x40045431
TIOCGPTPEER: Final = 0x5441
