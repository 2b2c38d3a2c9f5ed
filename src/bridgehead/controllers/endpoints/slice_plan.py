"""Which EndpointSlices to create, update and delete so that they hold the wanted endpoints: as few as possible. Pure.

Used by the endpoint slice and the mirroring controller. Every node reads every slice that is written, so what counts is
the number of slices touched: an endpoint stays in the slice it is in, new ones go where something is written anyway,
then into the one slice they fill best, and only then into slices of their own.
Source: Kubernetes `k8s.io/endpointslice/reconciler.go`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from bridgehead.objects.discovery import TRIGGER_TIME_ANNOTATION, Endpoint, EndpointSlice, SlicePort
from bridgehead.objects.meta import ObjectMeta, OwnerReference
from bridgehead.objects.names import check_dns1123_subdomain


class Group(NamedTuple):
    """What all endpoints of one slice have in common."""

    address_type: str
    ports: tuple[SlicePort, ...]


# The endpoints of each group. An empty group stands for one slice without endpoints.
Wanted = Mapping[Group, Sequence[Endpoint]]


@dataclass(frozen=True)
class Template:
    """What all slices of one owner have in common.

    `annotations` None leaves those of a slice as they are. `trigger_time` ("" for unknown) goes to slices that are
    written anyway; it is no reason to write one.
    """

    namespace: str
    owner: OwnerReference
    labels: Mapping[str, str]
    annotations: Mapping[str, str] | None = None
    trigger_time: str = ""

    def owns(self, item: EndpointSlice) -> bool:
        return any(owner.uid == self.owner.uid for owner in item.metadata.owner_references)

    def differs(self, item: EndpointSlice) -> bool:
        """Whether the slice's metadata has to be written."""
        if item.metadata.labels != self.labels:
            return True
        return self.annotations is not None and self.annotations != _without_trigger(item.metadata.annotations)

    def metadata(self, item: EndpointSlice | None) -> ObjectMeta:
        """The metadata to write: to `slice`, or to a new one."""
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
    """In this order no endpoint is ever missing that is wanted before and after."""

    create: tuple[EndpointSlice, ...] = ()
    update: tuple[EndpointSlice, ...] = ()
    delete: tuple[EndpointSlice, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.create or self.update or self.delete)


@dataclass
class _Draft:
    """A slice that is being filled; `slice` is None for a new one."""

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
    """`existing` are all slices that are this controller's for this owner; `capacity` endpoints go into one slice."""
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
    """Fill one group: its slices as they shall be, and those that nothing is left in."""
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
        fitting = [draft for draft in drafts if not draft.changed and _size(draft) + len(rest) <= capacity]
        if fitting:
            draft = max(fitting, key=_size)
            draft.changed = True
        else:
            draft = _Draft(group)
            drafts.append(draft)
        _move(rest, draft, capacity)
    return drafts, emptied


def _keep(template: Template, group: Group, item: EndpointSlice, missing: dict[Identity, Endpoint]) -> _Draft:
    """What stays in the slice; it is no longer missing."""
    found = [missing.pop(identity_of(endpoint), None) for endpoint in item.endpoints]
    endpoints = [endpoint for endpoint in found if endpoint is not None]
    return _Draft(group, item, endpoints, tuple(endpoints) != item.endpoints or template.differs(item))


def _placeholder(
    template: Template, group: Group, emptied: list[EndpointSlice]
) -> tuple[list[_Draft], list[EndpointSlice]]:
    """The one slice of a group without endpoints, best one that has none already."""
    if not emptied:
        return [_Draft(group)], []
    kept = next((item for item in emptied if not item.endpoints), emptied[0])
    changed = bool(kept.endpoints) or template.differs(kept)
    return [_Draft(group, kept, changed=changed)], [item for item in emptied if item is not kept]


def _recycle(template: Template, drafts: list[_Draft], obsolete: list[EndpointSlice]) -> None:
    """Write new slices over obsolete ones where that is allowed: one write instead of two, and no gap between them."""
    for draft in drafts:
        if draft.slice is not None:
            continue
        for item in obsolete:
            # The address type can't be changed, and what belongs to an older owner is the garbage collector's prey.
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
    """What makes two endpoints the same one, whatever their conditions."""
    uid = endpoint.target_ref.uid if endpoint.target_ref is not None else ""
    return endpoint.addresses, endpoint.hostname or "", uid


def group_of(item: EndpointSlice) -> Group:
    return Group(item.address_type, sort_ports(item.ports or ()))


def sort_ports(ports: Sequence[SlicePort]) -> tuple[SlicePort, ...]:
    return tuple(sorted(ports, key=lambda port: (port.name or "", port.port or 0, port.protocol or "")))


def name_prefix(owner_name: str) -> str:
    """What the server completes to a name: `web-`. A name too long for that is used as it is."""
    prefix = f"{owner_name}-"
    return prefix if not check_dns1123_subdomain(prefix + "x") else owner_name


def to_json(item: EndpointSlice) -> dict[str, Any]:
    """The slice with the fields the API requires even when they are empty or the default."""
    return {"addressType": item.address_type, "endpoints": [], **msgspec.to_builtins(item)}


def _without_trigger(annotations: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in annotations.items() if key != TRIGGER_TIME_ANNOTATION}
