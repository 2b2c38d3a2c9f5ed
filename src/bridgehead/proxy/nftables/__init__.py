"""The nftables mode: Frontends as elements of a few maps, under chains that never change. See README.md here."""

from .apply import Kernel
from .chains import Settings
from .errors import NftablesError, NftablesUnavailable, TransactionFailed
from .mode import NftablesMode, Repair

__all__ = ["Kernel", "NftablesError", "NftablesMode", "NftablesUnavailable", "Repair", "Settings", "TransactionFailed"]
