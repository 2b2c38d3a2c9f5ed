"""node.k8s.io/v1 RuntimeClass.

Pure: no I/O, no clock, no randomness. Source: Kubernetes API reference v1.36.
"""

from __future__ import annotations

from .meta import Object


class RuntimeClass(Object, frozen=True, kw_only=True):
    """A class of container runtimes. `handler` is its name in the configuration of nodes."""

    handler: str = ""
