"""The expected fate of a new connection at one node: the Frontend that it meets, and the backends that it may get.

It is a function of the Frontends that the node's proxy should have, of the destination and of the client. Proxy modes
differ in a few points: a userspace proxy connects to the pod itself, so that the pod sees the node; in the modes
iptables and ipvs, undefined ports are rejected only in a known range of cluster IPs, and the iptables mode, like
kube-proxy, rejects connections to a Service without endpoints before it looks at source ranges.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import enum
import ipaddress
from collections.abc import Collection, Iterable

import msgspec

from bridgehead.proxy.address_texts import of_family
from bridgehead.proxy.frontend_table import Frontends
from bridgehead.proxy.frontends import Backend, Frontend, FrontendKey, NodeFacts, SourceNat, Verdict
from bridgehead.proxy.mode import Settings

_USERSPACE, _IPTABLES, _IPVS = "userspace", "iptables", "ipvs"


class Fate(enum.StrEnum):
    """The outcome of a new connection at the node's rules."""

    TRANSLATED = "translated"  # to one of the backends
    REJECTED = "rejected"
    DROPPED = "dropped"
    UNTRANSLATED = "untranslated"  # no rule concerns it: it goes to the address itself
    UNKNOWN = "unknown"  # objects that decide it could not be read


class Client(msgspec.Struct, frozen=True):
    """The source of a connection. `is_node`: it is the node itself, whose rules the connection meets on its way out."""

    address: str
    is_node: bool = False


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """A backend that a connection may get. `chance`: of a client without affinity to another one, from 0 to 1.

    `client`: the address that the backend sees. `masqueraded_because`: why it is one of the node's; "" if it is the
    client's own.
    """

    backend: Backend
    chance: float
    client: str
    masqueraded_because: str = ""


class Expectation(msgspec.Struct, frozen=True, kw_only=True):
    """`frontend`: that of the destination, None without one. `because`: why this fate, or why these backends."""

    fate: Fate
    because: str
    frontend: Frontend | None = None
    choices: tuple[Choice, ...] = ()


def expect(
    destination: FrontendKey,
    client: Client,
    table: Frontends,
    facts: NodeFacts,
    settings: Settings,
    *,
    mode: str = "",
    local_addresses: Collection[str] = (),
) -> Expectation:
    """Return the fate of a new connection from `client` to `destination` at the node of `facts`.

    `local_addresses`: all addresses of the node, canonical; those of `facts` are always among them. `mode`: the
    proxy's.
    """
    local = {*local_addresses, *facts.addresses}
    frontend = _find(destination, client, table, settings, local)
    if frontend is None:
        return _without_frontend(destination, table, settings, local, mode)
    ranges = frontend.source_ranges
    rejects_first = mode == _IPTABLES and not frontend.backends and frontend.when_empty is Verdict.REJECT
    if ranges is not None and not rejects_first and not _is_in(client.address, ranges):
        because = f"{client.address} is in none of loadBalancerSourceRanges ({', '.join(ranges) or 'of its family'})"
        return Expectation(fate=Fate.DROPPED, because=because, frontend=frontend)
    backends, nat, when_empty, because = _select(frontend, client, settings)
    if not backends:
        fate = Fate.REJECTED if when_empty is Verdict.REJECT else Fate.DROPPED
        return Expectation(fate=fate, because=because, frontend=frontend)
    choices = tuple(
        _choice(backend, 1 / len(backends), client, frontend, nat, facts, mode == _USERSPACE) for backend in backends
    )
    return Expectation(fate=Fate.TRANSLATED, because=because, frontend=frontend, choices=choices)


def _find(
    key: FrontendKey, client: Client, table: Frontends, settings: Settings, local: Collection[str]
) -> Frontend | None:
    frontend = None if key.is_node_port else table.get(key)
    if frontend is None and _answers_node_ports(key, client, settings, local):
        return table.get(key.node_port)
    return frontend


def _answers_node_ports(key: FrontendKey, client: Client, settings: Settings, local: Collection[str]) -> bool:
    """Return whether an address is one of the node's at which it serves node ports."""
    if ipaddress.ip_address(key.address).is_loopback:
        return settings.localhost_node_ports and key.family == 4 and client.is_node
    if key.address not in local:
        return False
    cidrs = settings.node_port_cidrs
    return cidrs is None or _is_in(key.address, of_family(cidrs, key.family))


def _without_frontend(
    key: FrontendKey, table: Frontends, settings: Settings, local: Collection[str], mode: str
) -> Expectation:
    is_in_range = _is_in(key.address, of_family(settings.service_cidrs, key.family))
    if key.address in set(table.cluster_ips()) and (is_in_range or mode not in (_IPTABLES, _IPVS)):
        because = f"a Service has the cluster IP {key.address}, but not the port {key.port}/{key.protocol}"
        return Expectation(fate=Fate.REJECTED, because=because)
    if key.address not in local and is_in_range:
        because = f"{key.address} is in the range of cluster IPs, but no Service has it"
        return Expectation(fate=Fate.DROPPED, because=because)
    return Expectation(fate=Fate.UNTRANSLATED, because="no Service has this address and port")


def _select(
    frontend: Frontend, client: Client, settings: Settings
) -> tuple[tuple[Backend, ...], SourceNat, Verdict, str]:
    """Return the backends for a client, their source NAT, the verdict without any, and why these."""
    cluster = frontend.cluster_backends
    if cluster is not None:
        if client.is_node:
            why = "externalTrafficPolicy Local does not concern connections from the node itself"
            return cluster, SourceNat.ALWAYS, Verdict.REJECT, why if cluster else "the Service has no ready endpoint"
        if _is_in(client.address, settings.internal_cidrs(frontend.key.family)):
            why = "externalTrafficPolicy Local does not concern connections from this node's pods"
            nat = min(frontend.source_nat, SourceNat.HAIRPIN, key=_RANK.index)
            return cluster, nat, Verdict.REJECT, why if cluster else "the Service has no ready endpoint"
    if frontend.is_local:
        why = "the traffic policy Local allows only endpoints on this node"
        if not frontend.backends:
            reject = frontend.when_empty is Verdict.REJECT
            why = "the Service has no ready endpoint" if reject else f"{why}, and it has none"
    else:
        why = "all usable endpoints of the cluster" if frontend.backends else "the Service has no ready endpoint"
    return frontend.backends, frontend.source_nat, frontend.when_empty, why


_RANK = [SourceNat.NEVER, SourceNat.HAIRPIN, SourceNat.OUTSIDE, SourceNat.ALWAYS]


def _choice(
    backend: Backend,
    chance: float,
    client: Client,
    frontend: Frontend,
    nat: SourceNat,
    facts: NodeFacts,
    is_userspace: bool,
) -> Choice:
    family = frontend.key.family
    rank = _RANK.index(nat)
    because = ""
    if is_userspace and frontend.key.protocol != "sctp":
        because = "the userspace proxy makes the connection to the pod"
    elif nat is SourceNat.ALWAYS:
        because = "replies have to come back through this node"
        if client.is_node:
            because = "the connection comes from the node itself"
    elif rank >= _RANK.index(SourceNat.OUTSIDE) and not _is_in(client.address, of_family(facts.cluster_cidrs, family)):
        because = "the client is outside of the ranges of pods"
    elif rank >= _RANK.index(SourceNat.HAIRPIN) and client.address == backend.address:
        because = "the pod is its own backend (hairpin)"
    own = next((address for address in facts.addresses if (":" in address) == (family == 6)), "")
    return Choice(
        backend=backend,
        chance=chance,
        client=(own or client.address) if because else client.address,
        masqueraded_because=because,
    )


def _is_in(address: str, cidrs: Iterable[str]) -> bool:
    ip = ipaddress.ip_address(address)
    networks = map(ipaddress.ip_network, cidrs)
    return any(ip.version == network.version and ip in network for network in networks)
