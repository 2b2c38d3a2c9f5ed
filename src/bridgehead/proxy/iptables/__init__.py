"""The iptables mode: Frontends as kube-proxy's KUBE-* chains. See README.md here."""

from .apply import Kernel, NoCommands
from .mode import IptablesMode

__all__ = ["IptablesMode", "Kernel", "NoCommands"]
