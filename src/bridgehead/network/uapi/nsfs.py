"""linux/nsfs.h: ioctls on the descriptor of a namespace."""

from typing import Final

NS_GET_PARENT: Final = 0xB702
