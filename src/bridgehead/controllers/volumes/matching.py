"""Whether a PersistentVolume fits a claim, and the volume that fits best.

Called by `binding_plan` and the scheduler. Pure: no I/O, no clock, no randomness.
Source: Kubernetes `volume.FindMatchingVolume`, `checkVolumeSatisfyClaim` (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from bridgehead.objects.core import Node
from bridgehead.objects.node_selectors import matches_selector
from bridgehead.objects.quantities import milli_value
from bridgehead.objects.selectors import compile_selector
from bridgehead.objects.storage import PersistentVolume, PersistentVolumeClaim

AVAILABLE: Final = "Available"


def refers_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume is bound or reserved to the claim."""
    reference = volume.spec.claim_ref
    return (
        reference is not None
        and (reference.namespace, reference.name) == claim.key
        and reference.uid in ("", claim.metadata.uid)
    )


def mismatch(volume: PersistentVolume, claim: PersistentVolumeClaim) -> str:
    """Return why a volume that the claim names does not satisfy it, "" if it does."""
    if milli_value(volume.size) < milli_value(claim.size):
        return "requested PV is too small"
    if volume.class_name != claim.class_name:
        return "storageClassName does not match"
    if volume.spec.volume_mode != claim.spec.volume_mode:
        return "incompatible volumeMode"
    if not set(claim.spec.access_modes) <= set(volume.spec.access_modes):
        return "incompatible accessMode"
    return ""


def is_reachable(volume: PersistentVolume, node: Node) -> bool:
    """Whether the volume's node affinity allows the node."""
    affinity = volume.spec.node_affinity
    return affinity is None or matches_selector(affinity.required, node)


def find_volume(
    volumes: Iterable[PersistentVolume],
    claim: PersistentVolumeClaim,
    node: Node | None = None,
    *,
    only_reserved: bool = False,
) -> PersistentVolume | None:
    """Return the volume reserved to the claim, else the smallest that fits, the first by name of several.

    `node`: it must be reachable from there. Without one, as when claims are bound at once, a volume with fewer access
    modes is preferred to a smaller one. `only_reserved`: the claim waits for its first pod, so that only the scheduler
    chooses a volume.
    """
    best: PersistentVolume | None = None
    least: tuple[int, int] | None = None  # access modes, size
    selector = None if claim.spec.selector is None else compile_selector(claim.spec.selector)
    for volume in sorted(volumes, key=lambda one: one.metadata.name):
        size = milli_value(volume.size)
        if volume.metadata.deletion_timestamp is not None or size < milli_value(claim.size):
            continue
        if volume.spec.volume_mode != claim.spec.volume_mode:
            continue
        if node is None and not set(claim.spec.access_modes) <= set(volume.spec.access_modes):
            continue  # not even a reserved one
        if refers_to(volume, claim):
            return volume if node is None or is_reachable(volume, node) else None
        if only_reserved or volume.spec.claim_ref is not None or volume.status.phase != AVAILABLE:
            continue
        if mismatch(volume, claim) or (selector is not None and not selector.matches(volume.metadata.labels)):
            continue
        if node is not None and not is_reachable(volume, node):
            continue
        rank = (0 if node is not None else len(volume.spec.access_modes), size)
        if least is None or rank < least:
            best, least = volume, rank
    return best
