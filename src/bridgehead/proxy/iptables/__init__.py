"""The iptables mode: Frontends as the KUBE-* chains that kube-proxy's users know. See README.md here."""

from .apply import Kernel
from .mode import IptablesMode

__all__ = ["IptablesMode", "Kernel"]
