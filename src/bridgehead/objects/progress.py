"""How far each node's proxy is: up to which resourceVersions its kernel is programmed, as Leases tell it (pure).

A proxy writes one Lease in kube-system (`proxy/operating/progress.py`); the kubelet's barrier and `bridgehead wait`
read them. The versions are those of the proxy's own watches, so they are compared with versions of Services and
EndpointSlices only, each with its own kind. That they may be compared as numbers is Kubernetes' promise since v1.35
(KEP-5504).
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
_REFUSED = "bridgehead/services-refused"  # namespace/name, with commas; absent when there are none
_MOST_REFUSED = 100  # that are named: an object's annotations have a limit
_LONGEST_NAME = 253


class Versions(NamedTuple):
    """resourceVersions of the two kinds a proxy programs. 0 stands for none at all."""

    services: int = 0
    slices: int = 0


class Progress(NamedTuple):
    """What one node's proxy last said of itself, and when; it counts until `expires` (epoch seconds).

    `refused` Services are as an earlier version of them says, or not there: the kernel does not take what they ask for.
    """

    node: str
    programmed: Versions
    renewed: float
    expires: float
    refused: tuple[str, ...] = ()  # namespace/name

    def lacks(self, wanted: Versions) -> Versions:
        """How far behind it is: the difference for each kind, 0 where there is none."""
        return Versions(*(max(0, want - have) for want, have in zip(wanted, self.programmed, strict=True)))


def lease_name(node: str) -> str:
    """The name of the node's Lease. A node's name may be as long as a Lease's may: the rest is a hash then."""
    name = f"kube-proxy-{node}"
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(node.encode()).hexdigest()[:16]
    return f"{name[: _LONGEST_NAME - 17].rstrip('.-')}-{digest}"


def lease_changes(node: str, programmed: Versions, now: float, refused: Iterable[ObjectKey] = ()) -> dict[str, Any]:
    """The merge patch that says it."""
    names = sorted(map(str, refused))[:_MOST_REFUSED]
    return {
        "metadata": {
            "labels": {LABEL: LABEL_VALUE},
            "annotations": {
                _SERVICES: str(programmed.services),
                _SLICES: str(programmed.slices),
                _REFUSED: ",".join(names) or None,
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
) -> dict[str, Any]:
    """The Lease to create; it goes with `owner`, the Node."""
    lease = lease_changes(node, programmed, now, refused)
    metadata = lease["metadata"]
    metadata["annotations"] = {key: text for key, text in metadata["annotations"].items() if text is not None}
    metadata |= {"name": lease_name(node), "namespace": NAMESPACE}
    if owner is not None:
        reference = {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
        lease["metadata"]["ownerReferences"] = [reference]
    return lease


def read_progress(lease: Lease) -> Progress | None:
    """None for a Lease that says nothing of the kind, whoever wrote it."""
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
    return Progress(spec.holder_identity, programmed, renewed, expires, refused)


def latest_version(objects: Iterable[Object]) -> int:
    """The highest resourceVersion among `objects`; 0 when there are none."""
    return max((version_number(obj.metadata.resource_version) for obj in objects), default=0)


def is_behind(lease: Lease, wanted: Versions, now: float) -> bool:
    """Whether it is of a proxy that is alive and has not programmed `wanted` yet. `now` is in epoch seconds."""
    progress = read_progress(lease)
    return progress is not None and progress.expires > now and any(progress.lacks(wanted))


def find_behind(leases: Iterable[Lease], wanted: Versions, now: float) -> list[Progress]:
    """What those proxies said last for which `is_behind`, by node."""
    behind = (read_progress(lease) for lease in leases if is_behind(lease, wanted, now))
    return sorted(progress for progress in behind if progress is not None)
