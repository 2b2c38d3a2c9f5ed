"""Warnings of names of workloads, with which the names of their pods begin.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `WarningsOnCreate` of the strategies of workloads.
"""

from __future__ import annotations

from bridgehead.objects.names import check_dns1123_label


def warn_of_pod_names(name: str) -> list[str]:
    if reasons := check_dns1123_label(name):
        return [
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS "
            f"label is recommended: [{' '.join(reasons)}]"
        ]
    return []
