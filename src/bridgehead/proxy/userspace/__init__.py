"""The userspace mode: connections end in this process, which carries them on to a backend. See README.md here."""

from .apply import Kernel
from .listeners import Listeners
from .mode import UserspaceMode

__all__ = ["Kernel", "Listeners", "UserspaceMode"]
