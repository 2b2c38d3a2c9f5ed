"""linux/inotify.h: events of inotify(7)."""

from typing import Final

IN_ATTRIB: Final = 0x4
