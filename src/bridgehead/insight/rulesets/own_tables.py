"""This project's tables of nftables, `bridgehead` and `bridgehead-userspace`, as explained lines.

proxy/nftables/README.md shows such a table. Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from bridgehead.insight.facts.network_state import Listening
from bridgehead.objects.addresses import join_host_port
from bridgehead.proxy.address_texts import AddressPort
from bridgehead.proxy.frontends import FrontendKey
from bridgehead.proxy.nftables.chains import CLUSTER_BACKEND
from bridgehead.proxy.nftables.render import TableSpec
from bridgehead.proxy.nftables.transaction import frontend_of
from bridgehead.proxy.userspace.redirects import LISTENING, TABLE

from .entries import KernelFrontend, Mechanism, RulesMode
from .expected_frontends import UNKNOWN, Found, Known, destination_text
from .nft_listing import Element, NftTable
from .rule_descriptions import rule_meaning

MODES = {TableSpec().name: RulesMode.NFTABLES, TABLE: RulesMode.USERSPACE}

# Chains and containers in the order in which a connection passes them; what is not named comes between.
_FIRST = ("nat-prerouting", "nat-output")
_LAST = ("nat-postrouting", "filter-prerouting", "filter-output", "guard-listeners")
_CONTAINERS = ("services", "affinity-names", "affinity", "affinity-choices", "endpoints", "hairpin", "cluster-ips")


def read_own_table(table: NftTable, known: Known, listeners: Iterable[Listening], found: Found) -> None:
    """Add the lines of a table, and the listeners to which it leads."""
    mode = MODES[table.name]
    served = _frontends(table, known)
    found.frontends.setdefault(mode, {}).update(served)
    names = {one.value: frontend_of(one.key) for one in table.containers.get("affinity-names", ())}
    _chains(table, [name for name in _FIRST if name in table.chains], mode, found)
    for name in (*_CONTAINERS, *(each for each in table.containers if each not in _CONTAINERS)):
        for element in table.containers.get(name, ()):
            _element(table, name, element, served, names, known, found)
    middle = [name for name in table.chains if name not in _FIRST + _LAST]
    _chains(table, [*middle, *(name for name in _LAST if name in table.chains)], mode, found)
    if mode is RulesMode.USERSPACE:
        _listeners(table, served, listeners, found)


def _frontends(table: NftTable, known: Known) -> dict[FrontendKey, KernelFrontend]:
    backends: dict[FrontendKey, tuple[list[AddressPort], list[AddressPort]]] = {}
    for element in table.containers.get("endpoints", ()):
        key, backend = frontend_of(element.key), _address_port(element.value)
        if backend is not None:
            backends.setdefault(key, ([], []))[_is_cluster(element.key)].append(backend)
    found: dict[FrontendKey, KernelFrontend] = {}
    for element in table.containers.get("services", ()):
        key = frontend_of(element.key)
        everywhere, cluster = backends.get(key, ([], []))
        first = element.value.removeprefix("goto ")
        chains = table.reachable(first)
        found[key] = KernelFrontend(
            key=key,
            service=element.comment or known.owner(key),
            backends=tuple(everywhere),
            cluster_backends=tuple(cluster) if cluster or any("split-" in name for name in chains) else None,
            verdict="" if everywhere else _fate(table, element.value),
            chains=tuple(table.chain(name) for name in chains),
        )
    return found


def _address_port(value: str) -> AddressPort | None:
    address, dot, port = value.rpartition(" . ")
    return (address, int(port)) if dot and port.isdigit() else None


def _is_cluster(key: str) -> bool:
    """Return whether a key of map endpoints is of one of `cluster_backends`: see the mode's `chains.py`."""
    major, _, minor = key.rpartition(" . ")[2].partition(":")
    try:
        number = int(major, 16) << 16 | int(minor, 16)
    except ValueError:
        return False
    return bool(number & CLUSTER_BACKEND) if number & 0x80000000 else number >> 16 == 2


def _fate(table: NftTable, verdict: str) -> str:
    """Return the fate of clients outside the cluster that find no backend."""
    for _ in range(len(table.chains) + 1):
        if verdict == "drop":
            return "drop"
        name = verdict.removeprefix("goto ")
        if name == "reject-chain":
            return "reject"
        rules = table.chains.get(name)
        if not rules:
            return ""
        verdict = rules[-1].text
    return ""


def _chains(table: NftTable, names: Collection[str], mode: RulesMode, found: Found) -> None:
    for name in names:
        for rule in table.chains[name]:
            meaning = rule_meaning("own", rule.text)
            found.add(
                mode,
                Mechanism.NFTABLES,
                table.chain(name),
                rule.text,
                meaning or UNKNOWN,
                counter=rule.counter,
                explained=bool(meaning),
            )


def _element(
    table: NftTable,
    name: str,
    element: Element,
    served: Mapping[FrontendKey, KernelFrontend],
    names: Mapping[str, FrontendKey],
    known: Known,
    found: Found,
) -> None:
    mode = MODES[table.name]
    key: FrontendKey | None = None
    service, backend, explained = "", None, True
    match name:
        case "services" | "endpoints" | "affinity-names" | "affinity-choices":
            key = frontend_of(element.key)
            service = element.comment or (served[key].service if key in served else known.owner(key))
            backend = _address_port(element.value) if name == "endpoints" else None
            explained = known.explains(key)
            meaning = _of_frontend(name, element, key, backend)
        case "affinity":
            client, _, number = element.key.rpartition(" . ")
            key = names.get(number)
            service = served[key].service if key is not None and key in served else ""
            who = f"client {client}" if table.family == 4 else "a client (as a hash)"
            meaning = f"Keeps {who} on the backend with the number {element.value}, until it expires."
        case "cluster-ips":
            service = known.addresses.get(element.key, "")
            explained = known.explains(address=element.key)
            meaning = f"{element.key} is a cluster IP: ports that no Service has are rejected."
        case "hairpin":
            address = element.key.partition(" . ")[0]
            meaning = f"Pod {address} may connect to itself through a Service; it is masqueraded then."
        case _:
            explained, meaning = False, UNKNOWN
    found.add(
        mode,
        Mechanism.NFTABLES,
        table.container(name),
        element.text,
        meaning,
        frontend=key,
        service=service,
        backend=backend,
        explained=explained,
    )


def _of_frontend(name: str, element: Element, key: FrontendKey, backend: AddressPort | None) -> str:
    where = destination_text(key)
    match name:
        case "services":
            if element.value == "drop":
                return f"Connections to {where} are dropped."
            if element.value == "goto reject-chain":
                return f"Connections to {where} are rejected: there is no backend."
            return f"Connections to {where} go on in chain {element.value.removeprefix('goto ')}."
        case "affinity-names":
            return f"{element.value} is the name of the Service port of {where}, by which its clients are recorded."
        case "affinity-choices":
            return f"A number that is drawn for {where}, and the lasting number of its backend."
    to = join_host_port(*backend) if backend is not None else element.value
    clients = " for clients in the cluster" if _is_cluster(element.key) else ""
    return f"A backend of {where}{clients}: {to}."


def _listeners(
    table: NftTable, served: Mapping[FrontendKey, KernelFrontend], listeners: Iterable[Listening], found: Found
) -> None:
    owners = {
        (frontend.key.protocol, *backend): frontend
        for frontend in served.values()
        for backend in (*frontend.backends, *(frontend.cluster_backends or ()))
    }
    for one in listeners:
        if one.address != LISTENING[table.family]:
            continue
        frontend = owners.get((one.protocol, one.address, one.port))
        where = join_host_port(one.address, one.port)
        meaning = "Accepts connections that no rule sends here."
        if frontend is not None:
            where_to = destination_text(frontend.key)
            meaning = f"Accepts connections to {where_to}; the proxy passes them to the next backend in turn."
        found.add(
            RulesMode.USERSPACE,
            Mechanism.LISTENER,
            "sockets of the proxy",
            f"{one.protocol} {'LISTEN' if one.protocol == 'tcp' else 'UNCONN'} {where} {one.program}".rstrip(),
            meaning,
            frontend=frontend.key if frontend is not None else None,
            service=frontend.service if frontend is not None else "",
        )
