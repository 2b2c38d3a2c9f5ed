"""linux/keyctl.h: operations of keyctl(2)."""

from typing import Final

KEYCTL_JOIN_SESSION_KEYRING: Final = 1
