"""Progress of the nodes' proxies, in Leases: up to which resourceVersions each node's kernel is programmed.

Each proxy writes one Lease in kube-system (`proxy/operating/progress.py`); the kubelet's barrier and `bridgehead wait`
read these Leases. The versions are of the Services and EndpointSlices that the proxy watches, and are compared within
each kind only. Kubernetes promises since v1.35 that such versions are comparable as numbers (KEP-5504).

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from .coordination import Lease
from .meta import Object, ObjectKey, OwnerReference, version_number
from .times import format_micro_time, parse_time

NAMESPACE = "kube-system"
LABEL = "bridgehead/progress"
LABEL_VALUE = "service-proxy"
SELECTOR = f"{LABEL}={LABEL_VALUE}"

RENEW_SECONDS = 10.0
LEASE_SECONDS = 40

_SERVICES = "bridgehead/services-programmed"
_SLICES = "bridgehead/endpointslices-programmed"
_REFUSED = "bridgehead/services-refused"  # namespace/name separated by commas; absent without any
_MODE = "bridgehead/proxy-mode"  # nftables, iptables, ipvs or userspace
_WANTED_MODE = "bridgehead/proxy-mode-wanted"  # of the configuration, if another one is in use
_MODE_PROBLEM = "bridgehead/proxy-mode-problem"
_LONGEST_TEXT = 1000  # of these two, which a foreign client may have written
_MOST_REFUSED = 100  # named in the annotation: annotations of an object have a size limit
_LONGEST_NAME = 253


class Versions(NamedTuple):
    """resourceVersions of the two kinds that a proxy programs. 0: no object of the kind."""

    services: int = 0
    slices: int = 0


class ModeInUse(NamedTuple):
    """The mode of a proxy; "" if unknown. `wanted`: the one that its configuration asks for, perhaps no mode at all.

    `problem`: why the wanted mode is not in use, or what it lacks on this node.
    """

    name: str = ""
    wanted: str = ""
    problem: str = ""


UNKNOWN_MODE = ModeInUse()


class Progress(NamedTuple):
    """The latest state that one node's proxy published, valid until `expires`. Times are in epoch seconds.

    The kernel rejects the current version of each Service in `refused`; an earlier version is programmed, or none.
    """

    node: str
    programmed: Versions
    renewed: float
    expires: float
    refused: tuple[str, ...] = ()  # namespace/name
    mode: ModeInUse = UNKNOWN_MODE

    def lacks(self, wanted: Versions) -> Versions:
        """Return by how much each version is behind `wanted`; 0 where it is not."""
        return Versions(*(max(0, want - have) for want, have in zip(wanted, self.programmed, strict=True)))


def lease_name(node: str) -> str:
    """Return the name of the node's Lease. A long node name is cut and ends in a hash, so that the Lease's is valid."""
    name = f"kube-proxy-{node}"
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(node.encode()).hexdigest()[:16]
    return f"{name[: _LONGEST_NAME - 17].rstrip('.-')}-{digest}"


def lease_changes(
    node: str, programmed: Versions, now: float, refused: Iterable[ObjectKey] = (), mode: ModeInUse = UNKNOWN_MODE
) -> dict[str, Any]:
    """Return the merge patch that publishes `programmed`, `refused` and `mode`. `now` is in epoch seconds."""
    names = sorted(map(str, refused))[:_MOST_REFUSED]
    return {
        "metadata": {
            "labels": {LABEL: LABEL_VALUE},
            "annotations": {
                _SERVICES: str(programmed.services),
                _SLICES: str(programmed.slices),
                _REFUSED: ",".join(names) or None,
                _MODE: mode.name or None,
                _WANTED_MODE: mode.wanted[:_LONGEST_TEXT] if mode.wanted != mode.name else None,
                _MODE_PROBLEM: mode.problem[:_LONGEST_TEXT] or None,
            },
        },
        "spec": {
            "holderIdentity": node,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": format_micro_time(now),
        },
    }


def new_lease(
    node: str,
    programmed: Versions,
    now: float,
    owner: OwnerReference | None,
    refused: Iterable[ObjectKey] = (),
    mode: ModeInUse = UNKNOWN_MODE,
) -> dict[str, Any]:
    """Return the Lease to create. `owner` is the Node, with which the Lease is deleted."""
    lease = lease_changes(node, programmed, now, refused, mode)
    metadata = lease["metadata"]
    metadata["annotations"] = {key: text for key, text in metadata["annotations"].items() if text is not None}
    metadata |= {"name": lease_name(node), "namespace": NAMESPACE}
    if owner is not None:
        reference = {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
        lease["metadata"]["ownerReferences"] = [reference]
    return lease


def read_progress(lease: Lease) -> Progress | None:
    """Return the progress in a Lease; None for a Lease without it or with invalid values."""
    spec, annotations = lease.spec, lease.metadata.annotations
    if not spec.holder_identity or spec.renew_time is None:
        return None
    try:
        programmed = Versions(int(annotations[_SERVICES]), int(annotations[_SLICES]))
        renewed = parse_time(spec.renew_time)
    except (KeyError, ValueError):
        return None
    expires = renewed + (spec.lease_duration_seconds or LEASE_SECONDS)
    refused = tuple(filter(None, annotations.get(_REFUSED, "").split(",")))
    name = annotations.get(_MODE, "")
    mode = ModeInUse(name, annotations.get(_WANTED_MODE, name), annotations.get(_MODE_PROBLEM, ""))
    return Progress(spec.holder_identity, programmed, renewed, expires, refused, mode)


def latest_version(objects: Iterable[Object]) -> int:
    """Return the highest resourceVersion among `objects`; 0 when there are none."""
    return max((version_number(obj.metadata.resource_version) for obj in objects), default=0)


def is_behind(lease: Lease, wanted: Versions, now: float) -> bool:
    """Whether the Lease is of a live proxy that has not programmed `wanted` yet. `now` is in epoch seconds."""
    progress = read_progress(lease)
    return progress is not None and progress.expires > now and any(progress.lacks(wanted))


def find_behind(leases: Iterable[Lease], wanted: Versions, now: float) -> list[Progress]:
    """Return the progress of the proxies for which `is_behind` is true, sorted by node."""
    behind = (read_progress(lease) for lease in leases if is_behind(lease, wanted, now))
    return sorted(progress for progress in behind if progress is not None)
