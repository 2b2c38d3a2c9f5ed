"""Revisions of a DaemonSet or StatefulSet: which one its template is, the next number, and those beyond the limit.

Called by `revisions`. Pure: no I/O, no clock, no randomness.
Source: Kubernetes `pkg/controller/history`, `pkg/controller/daemon/update.go` (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from bridgehead.controllers.adoption import controller_reference
from bridgehead.objects.apps import ControllerRevision, DaemonSet, StatefulSet
from bridgehead.objects.kinds import Kind

Versioned = DaemonSet | StatefulSet


@dataclass(frozen=True)
class History:
    """The revision with the owner's present template, None if there is none, and the `old` ones, oldest first.

    `number` is the least that the present revision may have.
    """

    current: ControllerRevision | None
    old: tuple[ControllerRevision, ...]
    number: int


def revision_data(owner: Versioned) -> dict[str, Any]:
    """Return the strategic merge patch that gives an owner the present template.

    Its keys are sorted, as Go's encoder of maps writes them: clients find the present revision by comparing bytes.
    """
    template = msgspec.to_builtins(owner.spec.template, order="sorted")
    return {"spec": {"template": {"$patch": "replace", **template}}}


def sort_history(owner: Versioned, revisions: Iterable[ControllerRevision]) -> History:
    """Sort an owner's revisions. The current one is the newest with the present template."""
    data = revision_data(owner)
    ordered = sorted(revisions, key=lambda one: (one.revision, one.metadata.name))
    current = next((one for one in reversed(ordered) if one.data == data), None)
    old = tuple(one for one in ordered if one is not current)
    return History(current, old, max((one.revision for one in old), default=0) + 1)


def new_revision(kind: Kind[Any], owner: Versioned, number: int, label: str, hash: str) -> dict[str, Any]:
    """Return the ControllerRevision of the present template. `label` is the name of the label with the hash."""
    meta = owner.metadata
    return {
        "metadata": {
            "name": f"{meta.name}-{hash}",
            "namespace": meta.namespace,
            "labels": {**owner.spec.template.metadata.labels, label: hash},
            "annotations": meta.annotations,
            "ownerReferences": [msgspec.to_builtins(controller_reference(kind, owner))],
        },
        "data": revision_data(owner),
        "revision": number,
    }


def surplus_revisions(
    owner: Versioned, old: Sequence[ControllerRevision], is_live: Callable[[ControllerRevision], bool]
) -> list[ControllerRevision]:
    """Return the old revisions beyond the history limit, oldest first. Live ones have pods."""
    surplus = max(0, len(old) - owner.spec.revision_history_limit)
    return [one for one in old if not is_live(one)][:surplus]
