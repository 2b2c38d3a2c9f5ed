"""Whether a claim or a volume is used, so that its deletion has to wait.

Pure: no I/O, no clock, no randomness.
Source: Kubernetes `pkg/controller/volume/pvcprotection`, `pvprotection` (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from bridgehead.objects.core import Pod
from bridgehead.objects.meta import ObjectMeta
from bridgehead.objects.storage import PersistentVolume

CLAIM_FINALIZER: Final = "kubernetes.io/pvc-protection"
VOLUME_FINALIZER: Final = "kubernetes.io/pv-protection"


def is_used(pods: Iterable[Pod]) -> bool:
    """Whether one of the pods that name the claim holds it: one with a node that still may have containers."""
    return any(pod.spec.node_name and not pod.is_finished for pod in pods)


def is_bound(volume: PersistentVolume) -> bool:
    return volume.status.phase == "Bound"


def without_finalizer(meta: ObjectMeta, name: str) -> list[str]:
    return [finalizer for finalizer in meta.finalizers if finalizer != name]
