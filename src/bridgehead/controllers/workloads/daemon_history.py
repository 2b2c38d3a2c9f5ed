"""Revisions of a DaemonSet: which one its template is, the next number, and those beyond the history limit.

Called by `daemonsets`. Pure: no I/O, no clock, no randomness.
Source: Kubernetes `pkg/controller/daemon/update.go` (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import msgspec

from bridgehead.objects.apps import ControllerRevision, DaemonSet
from bridgehead.objects.kinds import DAEMON_SETS

from ..claims import controller_reference
from .daemon_plan import HASH_LABEL


@dataclass(frozen=True)
class History:
    """The revision with the DaemonSet's present template, None if there is none, and the `old` ones, oldest first.

    `number` is the least that the present revision may have.
    """

    current: ControllerRevision | None
    old: tuple[ControllerRevision, ...]
    number: int


def revision_data(daemon_set: DaemonSet) -> dict[str, Any]:
    """Return the strategic merge patch that gives a DaemonSet the present template."""
    return {"spec": {"template": {**msgspec.to_builtins(daemon_set.spec.template), "$patch": "replace"}}}


def sort_history(daemon_set: DaemonSet, revisions: Iterable[ControllerRevision]) -> History:
    """Sort a DaemonSet's revisions. Of several with the present template, the newest one is the current."""
    data = revision_data(daemon_set)
    ordered = sorted(revisions, key=lambda one: (one.revision, one.metadata.name))
    current = next((one for one in reversed(ordered) if one.data == data), None)
    old = tuple(one for one in ordered if one is not current)
    return History(current, old, max((one.revision for one in old), default=0) + 1)


def new_revision(daemon_set: DaemonSet, number: int, hash: str) -> dict[str, Any]:
    """Return the ControllerRevision of the present template."""
    meta = daemon_set.metadata
    return {
        "metadata": {
            "name": f"{meta.name}-{hash}",
            "namespace": meta.namespace,
            "labels": {**daemon_set.spec.template.metadata.labels, HASH_LABEL: hash},
            "annotations": meta.annotations,
            "ownerReferences": [msgspec.to_builtins(controller_reference(DAEMON_SETS, daemon_set))],
        },
        "data": revision_data(daemon_set),
        "revision": number,
    }


def surplus_revisions(
    daemon_set: DaemonSet, old: Sequence[ControllerRevision], live: AbstractSet[str]
) -> list[ControllerRevision]:
    """Return the old revisions beyond the history limit, oldest first. `live` are the hashes of existing pods."""
    surplus = max(0, len(old) - daemon_set.spec.revision_history_limit)
    return [one for one in old if one.metadata.labels.get(HASH_LABEL) not in live][:surplus]
