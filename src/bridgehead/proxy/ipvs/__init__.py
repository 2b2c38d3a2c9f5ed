"""The ipvs mode: Frontends as virtual servers of the kernel's IPVS, with kube-proxy's names. See README.md here."""

from .apply import Kernel
from .mode import IpvsMode

__all__ = ["IpvsMode", "Kernel"]
