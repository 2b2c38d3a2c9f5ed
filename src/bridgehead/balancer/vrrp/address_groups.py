"""Groups of addresses that VRRP announces together, the same on all nodes.

A group is one virtual router on one interface. Addresses of Services that any node may announce are in one group for
each interface and selection of nodes, so that nodes that come and go change no group. Addresses of local Services
(externalTrafficPolicy Local) are in a group for each set of nodes with endpoints.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from bridgehead.balancer.announcing_nodes import eligible_nodes, leaving_nodes, placement
from bridgehead.balancer.compiled_configuration import NodeSelection, VrrpAdvertisement
from bridgehead.balancer.ranges import IpAddress
from bridgehead.balancer.view import ClusterView, Publication
from bridgehead.objects.meta import ObjectKey

from .masters import Expected, expected

VIRTUAL_ROUTERS = 255  # ids on one network (RFC 5798)
OWNER_PRIORITY = 255  # of the address owner, which is the master without waiting for other nodes (RFC 5798)
_HIGHEST_PRIORITY = 200  # of others
_SELECTED, _NAMED = "selected", "named"  # the first parts of groups' nodes
_LEAVING_PRIORITY = 100  # and below: of nodes that hand their addresses over


class GroupKey(NamedTuple):
    """Identity of a group. `nodes` describes which nodes are in it, in a form that is the same everywhere.

    `interface` is that of the advertisement: a name, or `can_reach:ADDRESS`.
    """

    interface: str
    nodes: str

    @property
    def name(self) -> str:
        """A name that configuration files can contain."""
        return f"group-{self.digest.hex()[:16]}"

    @property
    def digest(self) -> bytes:
        return hashlib.sha256(f"{self.interface}\n{self.nodes}".encode()).digest()


@dataclass(frozen=True)
class Group:
    """A group that this node is in. `rank`: this node's position in the order of the group's nodes, from 0."""

    key: GroupKey
    router_id: int
    rank: int
    priority: int
    addresses: tuple[IpAddress, ...]


class _Assignment(NamedTuple):
    """An address, and the group to which an advertisement assigns it."""

    address: IpAddress
    key: GroupKey
    selection: NodeSelection


class GroupPlan:
    """The groups, kept up to date. Work is done for the Services that changed, and once for each group."""

    def __init__(self) -> None:
        self._view: ClusterView | None = None
        self._assignments: dict[ObjectKey, frozenset[_Assignment]] = {}
        self._by_address: dict[IpAddress, dict[ObjectKey, _Assignment]] = {}
        self.groups: dict[str, Group] = {}  # of this node, by name
        self.expected: dict[IpAddress, Expected] = {}  # the masters of all groups' addresses
        self.refused: frozenset[IpAddress] = frozenset()  # there are more groups than virtual routers

    def update(
        self, view: ClusterView, publications: Mapping[ObjectKey, Publication], changed: Collection[ObjectKey]
    ) -> set[ObjectKey]:
        """Take a new state. Return the Services whose addresses are in other groups than before."""
        is_alike = (
            self._view is not None
            and self._view.configuration is view.configuration
            and self._view.nodes == view.nodes
            and self._view.is_alone == view.is_alone
        )
        if not is_alike:
            changed = publications.keys() | self._assignments.keys()
        has_same_members = self._view is not None and self._view.members == view.members
        self._view = view
        regrouped = set()
        for key in changed:
            publication = publications.get(key)
            assignments = frozenset(_assignments(view, publication)) if publication is not None else frozenset()
            if assignments != self._assignments.get(key, frozenset()):
                regrouped.add(key)
                self._replace(key, assignments)
        if regrouped or not is_alike or not has_same_members:
            self._group(view)
        return regrouped

    def services(self, address: IpAddress) -> Collection[ObjectKey]:
        """Return the Services with an address."""
        return self._by_address.get(address, {}).keys()

    def addresses(self, service: ObjectKey) -> Collection[IpAddress]:
        """Return the addresses of a Service that VRRP announces, from whatever node."""
        return {assignment.address for assignment in self._assignments.get(service, ())}

    def _replace(self, key: ObjectKey, assignments: frozenset[_Assignment]) -> None:
        for assignment in self._assignments.pop(key, frozenset()):
            others = self._by_address.get(assignment.address, {})
            others.pop(key, None)
            if not others:
                self._by_address.pop(assignment.address, None)
        if assignments:
            self._assignments[key] = assignments
            for assignment in sorted(assignments, key=lambda assignment: assignment.key, reverse=True):
                self._by_address.setdefault(assignment.address, {})[key] = assignment

    def _group(self, view: ClusterView) -> None:
        """Form the groups. An address that several Services share is in one group, on all nodes in the same."""
        grouped: dict[GroupKey, list[IpAddress]] = {}
        selections: dict[GroupKey, NodeSelection] = {}
        for address, assignments in self._by_address.items():
            assignment = min(assignments.values(), key=lambda assignment: assignment.key)
            grouped.setdefault(assignment.key, []).append(address)
            selections[assignment.key] = assignment.selection
        router_ids = assign_router_ids(grouped)
        # A node that receives no other one cannot know whether it only lost the direction from them to itself: what it
        # sends must not keep them from taking over.
        leaving = leaving_nodes(view) | ({view.this_node} if view.is_alone else set())
        eligible = {selection: eligible_nodes(view, selection) for selection in set(selections.values())}
        self.refused = frozenset(
            address for key, addresses in grouped.items() if key not in router_ids for address in addresses
        )
        self.groups, self.expected = {}, {}
        for key, router_id in router_ids.items():
            order = by_rank(key, _nodes_of(key, eligible[selections[key]]))
            master = expected(order, view.members, leaving, view.this_node)
            self.expected.update(dict.fromkeys(grouped[key], master))
            if view.this_node in order:
                rank = order.index(view.this_node)
                priority = priority_of(rank, is_leaving=view.this_node in leaving)
                addresses = tuple(sorted(grouped[key], key=lambda address: (address.version, int(address))))
                self.groups[key.name] = Group(key, router_id, rank, priority, addresses)


def _assignments(view: ClusterView, publication: Publication) -> Iterator[_Assignment]:
    for address, pool in publication.addresses:
        for advertisement in pool.vrrp:
            key = _group_key(view, publication, advertisement)
            if key is not None:
                yield _Assignment(address, key, advertisement.nodes)
                break


def _group_key(view: ClusterView, publication: Publication, advertisement: VrrpAdvertisement) -> GroupKey | None:
    """Return the group of a Service's addresses; None if no node may announce them.

    Nodes that leave stay in it, with a lower priority: another group would have to elect a master anew.
    """
    if not publication.has_endpoints:
        return None
    if not publication.is_local:
        return GroupKey(advertisement.interface, f"{_SELECTED} by {_describe(advertisement.nodes)}")
    nodes = placement(publication, eligible_nodes(view, advertisement.nodes), frozenset())
    return GroupKey(advertisement.interface, f"{_NAMED} {','.join(sorted(nodes))}") if nodes else None


def _nodes_of(key: GroupKey, eligible: frozenset[str]) -> frozenset[str]:
    kind, _, text = key.nodes.partition(" ")
    return eligible & frozenset(text.split(",")) if kind == _NAMED else eligible


def _describe(selection: NodeSelection) -> str:
    """Return a text that is the same for equal selections."""
    return " or ".join(
        sorted(
            " and ".join(
                sorted(f"{term.key} {term.operator} {','.join(sorted(term.values))}" for term in selector.requirements)
            )
            or ("nothing" if selector.selects_nothing else "everything")
            for selector in selection.selectors
        )
    )


def assign_router_ids(keys: Iterable[GroupKey]) -> dict[GroupKey, int]:
    """Return a virtual router id for each group, all different: the hash of the key, or the next free one.

    Groups without a free id are left out. Interfaces of different names may be of one network, so all share the ids.
    """
    assigned: dict[int, GroupKey] = {}
    for key in sorted(keys, key=lambda key: key.digest)[:VIRTUAL_ROUTERS]:
        number = int.from_bytes(key.digest[-4:], "big") % VIRTUAL_ROUTERS
        while number in assigned:
            number = (number + 1) % VIRTUAL_ROUTERS
        assigned[number] = key
    return {key: number + 1 for number, key in assigned.items()}


def by_rank(key: GroupKey, nodes: Collection[str]) -> list[str]:
    """Return the nodes of a group in the order in which they should be its master.

    The order is another one in each group, except for groups of local Services: their addresses move from group to
    group, and should stay where they are.
    """
    seed = key.name if key.nodes.startswith(_SELECTED) else f"local {key.interface}"
    return sorted(nodes, key=lambda name: hashlib.sha256(f"{name}#{seed}".encode()).digest())


def priority_of(rank: int, *, is_leaving: bool) -> int:
    """Return a node's priority in a group: each node has another one.

    The first node is the address owner: a new group has the same master at once on whatever node it comes into being
    first. A node that leaves, or that receives no other one, has a lower priority than all that stay; it goes on until
    another node is the master.
    """
    if rank == 0 and not is_leaving:
        return OWNER_PRIORITY
    highest = _LEAVING_PRIORITY if is_leaving else _HIGHEST_PRIORITY
    return max(highest - rank, highest - _LEAVING_PRIORITY + 1)
