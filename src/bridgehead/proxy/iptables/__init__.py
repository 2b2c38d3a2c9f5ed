"""The iptables mode: Frontends as kube-proxy's KUBE-* chains. See README.md here."""

from .apply import Kernel, NoCommands, has_any_tables
from .mode import IptablesMode

__all__ = ["IptablesMode", "Kernel", "NoCommands", "has_any_tables"]
