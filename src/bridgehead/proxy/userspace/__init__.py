"""The userspace mode: this process accepts connections and relays them to a backend. See README.md here."""

from .apply import Kernel
from .listeners import Listeners
from .mode import UserspaceMode

__all__ = ["Kernel", "Listeners", "UserspaceMode"]
