"""The nftables mode: Frontends as elements of a few maps, under fixed chains. See README.md here."""

from .apply import Kernel
from .mode import NftablesMode
from .render import TableSpec

__all__ = ["Kernel", "NftablesMode", "TableSpec"]
