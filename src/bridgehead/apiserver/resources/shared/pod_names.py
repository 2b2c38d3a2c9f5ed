"""Warnings about names of pods, and of workloads, with which the names of their pods begin.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `WarningsOnCreate` of the strategies of workloads.
"""

from __future__ import annotations

from bridgehead.objects.names import check_dns1123_label


def warn_of_pod_name(name: str) -> list[str]:
    """Return a warning about the name of a pod that is no good host name."""
    return _warn(name, "the Pod's hostname")


def warn_of_pod_names(name: str) -> list[str]:
    """Return a warning about the name of a workload with which no good host name begins."""
    return _warn(name, "Pod names and hostnames")


def _warn(name: str, use: str) -> list[str]:
    if not (reasons := check_dns1123_label(name)):
        return []
    return [
        f"metadata.name: this is used in {use}, which can result in surprising behavior; a DNS label is recommended: "
        f"[{' '.join(reasons)}]"
    ]
