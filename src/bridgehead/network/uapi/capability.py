"""linux/capability.h: the version of the data of capset(2), and numbers of capabilities."""

from typing import Final

_LINUX_CAPABILITY_VERSION_3: Final = 0x20080522

CAP_SETGID: Final = 6
CAP_SETUID: Final = 7
CAP_SYS_ADMIN: Final = 21
CAP_SETFCAP: Final = 31
