"""The nftables mode: Frontends as elements of a few maps, under chains that never change. See README.md here."""

from .apply import Kernel
from .mode import NftablesMode
from .render import Place

__all__ = ["Kernel", "NftablesMode", "Place"]
