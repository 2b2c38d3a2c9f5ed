"""The differences of virtual servers, IP sets and addresses of kube-ipvs0 to those that the ipvs mode makes.

`comparison` compares the backends of each destination, in all modes. This module compares what else the mode renders:
how a backend is chosen, who is masqueraded, dropped or rejected, and the addresses without which IPVS sees no packet.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import NamedTuple

from bridgehead.insight.expectations import Expectations
from bridgehead.insight.facts.network_state import VirtualServer
from bridgehead.network.ipvs import Destination, Load, Scheduling, Server
from bridgehead.network.uapi.ip_vs import IP_VS_SVC_F_SCHED2
from bridgehead.proxy.address_texts import canonical_address, family_of, is_loopback
from bridgehead.proxy.frontends import FrontendKey
from bridgehead.proxy.ipvs import sets
from bridgehead.proxy.ipvs.readback import KernelState
from bridgehead.proxy.ipvs.render import Renderer
from bridgehead.proxy.ipvs.transaction import DUMMY

from .entries import IpvsObjects
from .expected_frontends import Known, destination_text
from .virtual_servers import DestinationKeys, SetElement, server_line


class Part(enum.StrEnum):
    """The kind of object that differs."""

    SERVER = "virtual server"
    ELEMENT = "set element"
    ADDRESS = "address"


class Alteration(NamedTuple):
    """`text`: one sentence. `service`: `namespace/name:port`, "" if unknown. `lines`: foreign and missing ones."""

    part: Part
    text: str
    service: str = ""
    frontend: FrontendKey | None = None
    lines: tuple[str, ...] = ()


def find_alterations(expected: Expectations, objects: IpvsObjects) -> Iterator[Alteration]:
    """Yield the differences. Without the node's addresses, those that depend on them are left out."""
    known = Known(expected.table, expected.table.cluster_ips())
    yield from _addresses(expected, objects, known)
    if not expected.is_bridgehead:
        return  # the sets of another proxy are not all the same
    kernel = _kernel_state(objects)
    timeless = {_server_of(one) for one in objects.servers if one.persistent_seconds == 0}
    node_addresses = _node_addresses(expected, objects)
    renderer = Renderer(expected.settings, expected.config.ipvs)
    transaction = renderer.full(expected.table, expected.table.cluster_ips(), kernel, node_addresses)
    keys = DestinationKeys([SetElement.of(*one) for one in objects.elements], known)
    for server, scheduling in sorted(transaction.servers.items()):
        is_timeless = server in timeless and scheduling.persistent > 0
        if is_timeless and kernel.servers[server][0]._replace(persistent=scheduling.persistent) == scheduling:
            continue
        yield from _server(server, scheduling, kernel, keys, known, has_addresses=objects.interfaces is not None)
    for changes, verb in ((transaction.added, "lacks"), (transaction.removed, "also has")):
        for name in sorted(changes):
            for text in sorted(changes[name]):
                element = SetElement.of(name, text)
                if objects.interfaces is not None or not _depends_on_node(element, keys):
                    yield _element(element, verb, keys, known)


def _node_addresses(expected: Expectations, objects: IpvsObjects) -> list[str]:
    if objects.interfaces is None:
        return list(expected.facts.addresses)
    found = (one for name, addresses in objects.interfaces.items() if name != DUMMY for one in addresses)
    return list(filter(None, map(canonical_address, found)))


def _kernel_state(objects: IpvsObjects) -> KernelState:
    elements: dict[str, set[str]] = {}
    for name, text in objects.elements:
        elements.setdefault(name, set()).add(text)
    kinds = {name: kind for family in (4, 6) for name, kind in sets.wanted(family).items()}
    return KernelState(
        servers={
            _server_of(one): (
                _scheduling(one),
                {
                    Destination(each.address, each.port): Load(each.weight, each.active + each.inactive)
                    for each in one.destinations
                },
            )
            for one in objects.servers
        },
        sets={name: (kind, elements.get(name, set())) for name, kind in kinds.items()},
        bound=set((objects.interfaces or {}).get(DUMMY, ())),
    )


def _server_of(one: VirtualServer) -> Server:
    return Server(one.family, one.address, one.protocol, one.port, one.mark)


def _scheduling(one: VirtualServer) -> Scheduling:
    # /proc does not show the flags of schedulers.
    flags = IP_VS_SVC_F_SCHED2 if one.scheduler == "mh" else 0
    persistent = -1 if one.persistent_seconds == 0 else one.persistent_seconds or 0
    return Scheduling(one.scheduler, persistent, flags)


def _addresses(expected: Expectations, objects: IpvsObjects, known: Known) -> Iterator[Alteration]:
    if objects.interfaces is None:
        return
    held = {address for addresses in objects.interfaces.values() for address in addresses}
    wanted: dict[str, None] = dict.fromkeys(expected.table.cluster_ips())
    keys = (one.key for one in expected.table if not one.key.is_node_port)
    wanted |= dict.fromkeys(key.address for key in keys if not is_loopback(key.address))
    for address in sorted(wanted.keys() - held):
        if family_of(address) in expected.settings.families:
            text = f"{address} is not on {DUMMY}: packets to it do not reach IPVS."
            yield Alteration(Part.ADDRESS, text, known.addresses.get(address, ""))
    for address in sorted(set(objects.interfaces.get(DUMMY, ())) - wanted.keys()):
        if not address.startswith("fe80:"):  # the kernel's own, of an interface that is up
            yield Alteration(Part.ADDRESS, f"{address} is on {DUMMY}, but no Service has it.")


def _server(
    server: Server, wanted: Scheduling, kernel: KernelState, keys: DestinationKeys, known: Known, *, has_addresses: bool
) -> Iterator[Alteration]:
    key = keys.of(server.address, server.protocol, server.port) if not server.mark else None
    owner = known.owner(key) if key is not None else ""
    where = destination_text(key) if key is not None else f"mark {server.mark}"
    line = server_line(_virtual_server(server, wanted))
    if server in kernel.servers:
        text = f"The virtual server of {where} chooses backends in another way than it should."
        had = server_line(_virtual_server(server, kernel.servers[server][0]))
        yield Alteration(Part.SERVER, text, owner, key, (f"missing: {line}", f"foreign: {had}"))
    elif key is not None and key.is_node_port and has_addresses:
        text = f"{where} of {owner} has no virtual server on {server.address}."
        yield Alteration(Part.SERVER, text, owner, key, (f"missing: {line}",))
    elif server.mark:
        text = f"There is no virtual server for mark {server.mark}: clients in the cluster get the backends of others."
        yield Alteration(Part.SERVER, text, lines=(f"missing: {line}",))


def _virtual_server(server: Server, scheduling: Scheduling) -> VirtualServer:
    return VirtualServer(
        protocol=server.protocol,
        address=server.address,
        port=server.port,
        mark=server.mark,
        family=server.family,
        scheduler=scheduling.scheduler,
        persistent_seconds=max(scheduling.persistent, 0) if scheduling.persistent else None,
    )


def _depends_on_node(element: SetElement, keys: DestinationKeys) -> bool:
    if element.base == sets.SOURCE_IP:
        return True
    endpoint = element.endpoint
    return endpoint is not None and keys.of(*endpoint).is_node_port


def _element(element: SetElement, verb: str, keys: DestinationKeys, known: Known) -> Alteration:
    key, service = keys.of_element(element), ""
    if element.base == sets.BOUND:
        service = known.addresses.get(element.text, "")
    elif key is not None:
        service = known.owner(key)
    text = f"Set {element.name} {verb} {element.text}."
    prefix = "missing" if verb == "lacks" else "foreign"
    return Alteration(Part.ELEMENT, text, service, key, (f"{prefix}: add {element.name} {element.text}",))
