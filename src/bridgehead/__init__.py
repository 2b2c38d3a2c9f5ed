"""Bridgehead: Kubernetes Services as standalone software. `docs/architecture.md` explains the layout."""

import os

__version__ = "0.1.0"

# The Kubernetes release whose API is implemented, and the version that API server and kubelet report.
KUBERNETES_VERSION = "v1.36.0"
GIT_VERSION = f"{KUBERNETES_VERSION}+bridgehead.{__version__}"

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm"}


def architecture() -> str:
    """Return the machine's architecture as Go and Kubernetes name it: `amd64`, `arm64`."""
    machine = os.uname().machine
    return _ARCHITECTURES.get(machine, machine)
