"""Plan of the EndpointSlices to create, update and delete, with as few writes as possible.

Used by the EndpointSlice and the mirroring controller. Every node reads every written slice, so the number of writes is
minimized: an endpoint stays in its slice; new endpoints go into slices that are written anyway, then into the one
existing slice that they fill best, and only then into new slices. Pure: no I/O, no clock, no randomness.
Source: Kubernetes `k8s.io/endpointslice/reconciler.go`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from bridgehead.objects.endpoint_slices import TRIGGER_TIME_ANNOTATION, Endpoint, EndpointSlice, SlicePort
from bridgehead.objects.meta import ObjectMeta, OwnerReference
from bridgehead.objects.names import check_dns1123_subdomain


class Group(NamedTuple):
    """Address type and ports, which all endpoints of a slice share."""

    address_type: str
    ports: tuple[SlicePort, ...]


# The endpoints of each group. An empty group stands for one slice without endpoints.
Wanted = Mapping[Group, Sequence[Endpoint]]


@dataclass(frozen=True)
class Template:
    """Metadata that all slices of one owner share.

    `annotations` None keeps those of a slice. `trigger_time` ("" for unknown) is added to slices that are written for
    another reason.
    """

    namespace: str
    owner: OwnerReference
    labels: Mapping[str, str]
    annotations: Mapping[str, str] | None = None
    trigger_time: str = ""

    def owns(self, item: EndpointSlice) -> bool:
        return any(owner.uid == self.owner.uid for owner in item.metadata.owner_references)

    def differs(self, item: EndpointSlice) -> bool:
        """Whether the slice's metadata differs and must be written."""
        if item.metadata.labels != self.labels:
            return True
        return self.annotations is not None and self.annotations != _without_trigger(item.metadata.annotations)

    def metadata(self, item: EndpointSlice | None) -> ObjectMeta:
        """Return the metadata to write to `item`, or to a new slice for None."""
        annotations = self.annotations
        if annotations is None:
            annotations = item.metadata.annotations if item is not None else {}
        written = _without_trigger(annotations)
        if self.trigger_time:
            written[TRIGGER_TIME_ANNOTATION] = self.trigger_time
        if item is not None:
            return msgspec.structs.replace(item.metadata, labels=dict(self.labels), annotations=written)
        return ObjectMeta(
            namespace=self.namespace,
            generate_name=name_prefix(self.owner.name),
            labels=dict(self.labels),
            annotations=written,
            owner_references=(self.owner,),
        )


@dataclass(frozen=True)
class SlicePlan:
    """Slices to create, update and delete. Applied in this order, they never leave out an endpoint that stays."""

    create: tuple[EndpointSlice, ...] = ()
    update: tuple[EndpointSlice, ...] = ()
    delete: tuple[EndpointSlice, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.create or self.update or self.delete)


@dataclass
class _Draft:
    """A slice that is being filled; a new one has no existing slice."""

    group: Group
    slice: EndpointSlice | None = None
    endpoints: list[Endpoint] = field(default_factory=list)
    changed: bool = True

    def finish(self, template: Template) -> EndpointSlice:
        return EndpointSlice(
            metadata=template.metadata(self.slice),
            address_type=self.group.address_type,
            endpoints=tuple(self.endpoints),
            ports=self.group.ports,
        )


def plan_slices(template: Template, wanted: Wanted, existing: Sequence[EndpointSlice], capacity: int) -> SlicePlan:
    """Plan the slices of one owner. `existing`: all its slices by this controller; `capacity`: endpoints in a slice."""
    obsolete = [item for item in existing if not template.owns(item)]
    by_group: dict[Group, list[EndpointSlice]] = {}
    for item in existing:
        if template.owns(item):
            by_group.setdefault(group_of(item), []).append(item)
    drafts: list[_Draft] = []
    for group, endpoints in wanted.items():
        kept, emptied = _distribute(template, group, endpoints, by_group.pop(group, []), capacity)
        drafts += kept
        obsolete += emptied
    obsolete += [item for slices in by_group.values() for item in slices]
    _recycle(template, drafts, obsolete)
    written = [draft for draft in drafts if draft.changed]
    return SlicePlan(
        create=tuple(draft.finish(template) for draft in written if draft.slice is None),
        update=tuple(draft.finish(template) for draft in written if draft.slice is not None),
        delete=tuple(obsolete),
    )


def _distribute(
    template: Template, group: Group, endpoints: Sequence[Endpoint], slices: list[EndpointSlice], capacity: int
) -> tuple[list[_Draft], list[EndpointSlice]]:
    """Fill the slices of one group; return them, and the slices that are left without endpoints."""
    missing = {identity_of(endpoint): endpoint for endpoint in endpoints}
    drafts = [_keep(template, group, item, missing) for item in slices]
    emptied = [draft.slice for draft in drafts if not draft.endpoints and draft.slice is not None]
    drafts = [draft for draft in drafts if draft.endpoints]
    if not endpoints:
        return _placeholder(template, group, emptied)

    rest = list(missing.values())
    for draft in sorted((draft for draft in drafts if draft.changed), key=_size, reverse=True):
        _move(rest, draft, capacity)
    while rest:
        # Unchanged slices are tried once the rest fits into one slice: there may be as many slices as endpoints.
        unchanged = (draft for draft in drafts if not draft.changed) if len(rest) <= capacity else ()
        fitting = [draft for draft in unchanged if _size(draft) + len(rest) <= capacity]
        if fitting:
            draft = max(fitting, key=_size)
            draft.changed = True
        else:
            draft = _Draft(group)
            drafts.append(draft)
        _move(rest, draft, capacity)
    return drafts, emptied


def _keep(template: Template, group: Group, item: EndpointSlice, missing: dict[Identity, Endpoint]) -> _Draft:
    """Return the slice with the endpoints that stay, and remove these from `missing`."""
    found = [missing.pop(identity_of(endpoint), None) for endpoint in item.endpoints]
    endpoints = [endpoint for endpoint in found if endpoint is not None]
    return _Draft(group, item, endpoints, tuple(endpoints) != item.endpoints or template.differs(item))


def _placeholder(
    template: Template, group: Group, emptied: list[EndpointSlice]
) -> tuple[list[_Draft], list[EndpointSlice]]:
    """Return the one slice of a group without endpoints, if possible an existing empty one."""
    if not emptied:
        return [_Draft(group)], []
    kept = next((item for item in emptied if not item.endpoints), emptied[0])
    changed = bool(kept.endpoints) or template.differs(kept)
    return [_Draft(group, kept, changed=changed)], [item for item in emptied if item is not kept]


def _recycle(template: Template, drafts: list[_Draft], obsolete: list[EndpointSlice]) -> None:
    """Turn obsolete slices into new ones where the API allows it: one write instead of two, without a gap."""
    for draft in drafts:
        if draft.slice is not None:
            continue
        for item in obsolete:
            # The address type is immutable, and the garbage collector deletes slices of an earlier owner.
            if item.address_type == draft.group.address_type and template.owns(item):
                draft.slice = item
                obsolete.remove(item)
                break


def _move(rest: list[Endpoint], draft: _Draft, capacity: int) -> None:
    room = max(0, capacity - len(draft.endpoints))
    draft.endpoints += rest[:room]
    del rest[:room]


def _size(draft: _Draft) -> int:
    return len(draft.endpoints)


Identity = tuple[tuple[str, ...], str, str]


def identity_of(endpoint: Endpoint) -> Identity:
    """Return the fields by which two endpoints are the same one, whatever their conditions."""
    return endpoint.addresses, endpoint.hostname or "", endpoint.pod_uid


def group_of(item: EndpointSlice) -> Group:
    return Group(item.address_type, sort_ports(item.ports or ()))


def sort_ports(ports: Sequence[SlicePort]) -> tuple[SlicePort, ...]:
    return tuple(sorted(ports, key=lambda port: (port.name or "", port.port or 0, port.protocol or "")))


def name_prefix(owner_name: str) -> str:
    """Return the `generateName` prefix, such as `web-`; the name itself when it is too long."""
    prefix = f"{owner_name}-"
    return prefix if not check_dns1123_subdomain(prefix + "x") else owner_name


def to_json(item: EndpointSlice) -> dict[str, Any]:
    """Return the slice with the fields that the API requires even with default values."""
    return {"addressType": item.address_type, "endpoints": [], **msgspec.to_builtins(item)}


def _without_trigger(annotations: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in annotations.items() if key != TRIGGER_TIME_ANNOTATION}
