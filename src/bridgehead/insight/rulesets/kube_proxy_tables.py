"""kube-proxy's own table of nftables, `kube-proxy`, as explained lines.

Its chains have the Service in their names: `service-HASH-ns/name/tcp/port`. Source:
kubernetes/pkg/proxy/nftables/proxier.go, v1.31 and later. Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import re

from bridgehead.proxy.address_texts import AddressPort
from bridgehead.proxy.frontends import ANY_LOCAL, FrontendKey

from .entries import KernelFrontend, Mechanism, RulesMode
from .expected_frontends import UNKNOWN, Found, Known, destination_text
from .nft_listing import Element, NftTable
from .rule_descriptions import rule_meaning

NAME = "kube-proxy"
_MODE = RulesMode.KUBE_PROXY_NFTABLES

_BY_ADDRESS = ("service-ips", "no-endpoint-services", "firewall-ips")
_BY_PORT = ("service-nodeports", "no-endpoint-nodeports")
_FIRST = ("nat-prerouting", "nat-output", "services")
_chain_name = re.compile(
    r"(?P<kind>service|external|local|firewall|endpoint|affinity)-[A-Z0-9]{8}-"
    r"(?P<namespace>[^/]+)/(?P<name>[^/]+)/(?P<protocol>tcp|udp|sctp)/(?P<port>[^_]*)(?:__.*)?"
).fullmatch
_translation = re.compile(r"(?:^| )dnat (?:ip6? )?to (?:\[(?P<six>[^]]+)\]|(?P<four>[0-9.]+)):(?P<port>\d+)").search


def read_kube_proxy_table(table: NftTable, known: Known, found: Found) -> None:
    """Add the lines of a table."""
    served = _frontends(table)
    found.frontends.setdefault(_MODE, {}).update(served)
    _chains(table, [name for name in _FIRST if name in table.chains], known, found)
    for name in (*_BY_ADDRESS, *_BY_PORT):
        for element in table.containers.get(name, ()):
            _element(table, name, element, served, known, found)
    _chains(table, [name for name in table.chains if name not in _FIRST], known, found)
    for name, elements in table.containers.items():
        if name not in _BY_ADDRESS + _BY_PORT:
            for element in elements:
                _other_element(table, name, element, known, found)


def owner_of(name: str) -> str:
    """Return the Service port `namespace/name:port` of a chain or set; "" if its name has none."""
    match = _chain_name(name)
    return f"{match['namespace']}/{match['name']}:{match['port']}" if match is not None else ""


def key_of(table: NftTable, container: str, element: Element) -> FrontendKey | None:
    """Return the destination of an element of one of the maps."""
    parts = element.key.split(" . ")
    if not parts[-1].isdigit():
        return None
    if container in _BY_PORT and len(parts) == 2:
        return FrontendKey(ANY_LOCAL[table.family], parts[0], int(parts[1]))
    return FrontendKey(parts[0], parts[1], int(parts[2])) if len(parts) == 3 else None


def _frontends(table: NftTable) -> dict[FrontendKey, KernelFrontend]:
    firewalls = {
        key_of(table, "firewall-ips", element): table.reachable(element.value.removeprefix("goto "))
        for element in table.containers.get("firewall-ips", ())
    }
    found: dict[FrontendKey, KernelFrontend] = {}
    for name in ("service-ips", "service-nodeports"):
        for element in table.containers.get(name, ()):
            key = key_of(table, name, element)
            if key is None:
                continue
            chain = element.value.removeprefix("goto ")
            cluster, everywhere = _backends(table, chain)
            found[key] = KernelFrontend(
                key=key,
                service=element.comment or owner_of(chain),
                backends=tuple(everywhere),
                cluster_backends=tuple(cluster) if cluster is not None else None,
                chains=tuple(table.chain(each) for each in (*firewalls.get(key, ()), *table.reachable(chain))),
            )
    for name in ("no-endpoint-services", "no-endpoint-nodeports"):
        for element in table.containers.get(name, ()):
            key = key_of(table, name, element)
            if key is None:
                continue
            verdict = "drop" if element.value == "drop" else "reject"
            present = found.get(key)
            found[key] = KernelFrontend(
                key=key,
                service=element.comment or (present.service if present is not None else ""),
                cluster_backends=present.cluster_backends if present is not None else None,
                verdict=verdict,
                chains=present.chains if present is not None else (),
            )
    return found


def _backends(table: NftTable, chain: str) -> tuple[list[AddressPort] | None, list[AddressPort]]:
    """Return the backends of clients in the cluster, None if all clients have the same, and those of all others."""
    cluster: list[AddressPort] | None = None
    everywhere: list[AddressPort] = []
    for rule in table.chains.get(chain, ()):
        for target in rule.targets:
            if target == "mark-for-masquerade":
                continue
            found = [_endpoint(table, name) for name in table.reachable(target) if name.startswith("endpoint-")]
            backends = list(dict.fromkeys(one for one in found if one is not None))
            if chain.startswith("external-") and ("saddr" in rule.text):
                cluster = backends
            else:
                everywhere += (one for one in backends if one not in everywhere)
    return cluster, everywhere


def _endpoint(table: NftTable, chain: str) -> AddressPort | None:
    for rule in table.chains.get(chain, ()):
        match = _translation(rule.text)
        if match is not None:
            return match["six"] or match["four"], int(match["port"])
    return None


def _chains(table: NftTable, names: list[str], known: Known, found: Found) -> None:
    for name in names:
        owner = owner_of(name)
        for rule in table.chains[name]:
            meaning = rule_meaning("kube-proxy", rule.text)
            found.add(
                _MODE,
                Mechanism.NFTABLES,
                table.chain(name),
                rule.text,
                meaning or UNKNOWN,
                service=owner,
                backend=_endpoint(table, name) if name.startswith("endpoint-") else None,
                counter=rule.counter,
                explained=bool(meaning) and (not owner or known.explains(owner=owner)),
            )


def _element(
    table: NftTable,
    name: str,
    element: Element,
    served: dict[FrontendKey, KernelFrontend],
    known: Known,
    found: Found,
) -> None:
    key = key_of(table, name, element)
    chain = element.value.removeprefix("goto ")
    service = element.comment or owner_of(chain)
    if not service and key in served:
        service = served[key].service
    where = destination_text(key) if key is not None else element.key
    match name, chain:
        case _, "drop":
            meaning = f"New connections to {where} are dropped: no backend is on this node (traffic policy Local)."
        case _, "reject-chain":
            meaning = f"New connections to {where} are rejected: the Service has no endpoints."
        case "firewall-ips", _:
            meaning = f"Clients of {where} are checked in chain {chain}."
        case _:
            meaning = f"Connections to {where} go on in chain {chain}."
    found.add(
        _MODE,
        Mechanism.NFTABLES,
        table.container(name),
        element.text,
        meaning,
        frontend=key,
        service=service,
        explained=known.explains(key),
    )


def _other_element(table: NftTable, name: str, element: Element, known: Known, found: Found) -> None:
    service, explained, meaning = owner_of(name), True, UNKNOWN
    if name == "cluster-ips":
        service = known.addresses.get(element.key, "")
        explained = known.explains(address=element.key)
        meaning = f"{element.key} is a cluster IP: ports that no Service has are rejected."
    elif name == "nodeport-ips":
        meaning = f"Node ports answer at {element.key}."
    elif name.startswith("affinity-"):
        meaning = f"Client {element.key} keeps its backend until it expires."
    else:
        explained = False
    found.add(
        _MODE,
        Mechanism.NFTABLES,
        table.container(name),
        element.text,
        meaning,
        service=service,
        explained=explained,
    )
