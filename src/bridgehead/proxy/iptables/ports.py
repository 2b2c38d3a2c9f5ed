"""One Service port as chains of its own, and its lines in the chains that all share. Pure; `render.py` calls it.

The Frontends of a Service port (one family, one protocol) give together:

    KUBE-SVC-*  one of the backends of the whole cluster      KUBE-SVL-*  one of those on this node
    KUBE-EXT-*  what comes to the node port and to published addresses, by externalTrafficPolicy
    KUBE-FW-*   who may use load-balancer addresses           KUBE-SEP-*  one backend
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

from bridgehead.objects.addresses import join_host_port
from bridgehead.proxy.addresses import Family
from bridgehead.proxy.frontends import Backend, Frontend, Publication, SourceNat, Verdict
from bridgehead.proxy.mode import Settings

from .chains import (
    EXTERNAL_SERVICES,
    FILTER_NODE_PORTS,
    FILTER_SERVICES,
    NODE_PORTS,
    PROXY_FIREWALL,
    SERVICES,
    Chain,
    Rules,
    from_insiders,
    from_outside,
    hash_of,
    host,
    reject,
)

_is_harmless = re.compile(r"[A-Za-z0-9][A-Za-z0-9./:_-]{0,180}").fullmatch
_MASK = {4: "255.255.255.255", 6: "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"}


class PortKey(NamedTuple):
    """One Service port in one family."""

    family: Family
    owner: str  # namespace/name:port
    protocol: str

    @property
    def shown(self) -> str:
        """The owner as comments have it; a name that could be anything but a name is replaced by its hash."""
        return self.owner if _is_harmless(self.owner) else f"unnamed/{hash_of(self.owner)}"


class PortRules(NamedTuple):
    """`own`: the port's chains; `shared`: its lines in chains that all ports share."""

    own: dict[Chain, Rules]
    shared: dict[Chain, Rules]


def port_of(frontend: Frontend) -> PortKey:
    return PortKey(frontend.key.family, frontend.owner, frontend.key.protocol)


def render_port(port: PortKey, frontends: Iterable[Frontend], settings: Settings) -> PortRules:
    """The rules of one Service port, whose Frontends these are, in any order."""
    return _Port(port, sorted(frontends, key=lambda f: (_RANK[f.published_as], f.key)), settings).render()


def has_chain(port: PortKey, frontends: Iterable[Frontend], names: Collection[str]) -> bool:
    """Whether one of these names can be that of a chain of the port's. Much cheaper than rendering it."""
    digest = hash_of(port.owner + port.protocol)
    if any(f"KUBE-{kind}-{digest}" in names for kind in _KINDS):
        return True
    backends = {b for frontend in frontends for b in (*frontend.backends, *(frontend.inside or ()))}
    return any(_endpoint_chain(port, _endpoint(backend)) in names for backend in backends)


_KINDS = ("SVC", "SVL", "EXT", "FW")
_RANK = {kind: rank for rank, kind in enumerate(Publication)}


class _Port:
    def __init__(self, port: PortKey, frontends: list[Frontend], settings: Settings) -> None:
        self._port = port
        self._internal = [f for f in frontends if f.published_as is Publication.CLUSTER_IP]
        self._external = [f for f in frontends if f.published_as is not Publication.CLUSTER_IP]
        self._from_insiders = from_insiders(port.family, settings)
        self._from_outside = from_outside(port.family, settings)
        digest = hash_of(port.owner + port.protocol)
        self._chain = {kind: Chain("nat", f"KUBE-{kind}-{digest}") for kind in _KINDS}
        self._own: dict[Chain, list[str]] = {}
        self._shared: dict[Chain, list[str]] = {}

    def render(self) -> PortRules:
        for frontend in self._internal:
            self._internal_entry(frontend)
        for frontend in self._external:
            self._external_entry(frontend)
        self._health_check()
        self._external_chain()
        self._firewall_chain()
        self._balancing()
        return PortRules(
            {chain: tuple(rules) for chain, rules in self._own.items()},
            {chain: tuple(rules) for chain, rules in self._shared.items()},
        )

    # --- Lines in shared chains ------------------------------------------------------------------------------

    def _internal_entry(self, frontend: Frontend) -> None:
        if not frontend.backends:
            self._refusal(FILTER_SERVICES, frontend)
            return
        target = self._policy(frontend)
        comment = self._comment(frontend.published_as.value)
        self._share(SERVICES, _match(frontend, comment), target)
        rules = self._own.setdefault(target, [])
        if frontend.source_nat is SourceNat.ALWAYS:
            rules.append(f"{_match(frontend, comment)} -j KUBE-MARK-MASQ")
        elif frontend.source_nat is SourceNat.OUTSIDE and self._from_outside is not None:
            outside = self._from_outside
            match = _match(frontend, comment + outside.ranges, outside.interface)
            rules.append(f"{outside.source}{match} -j KUBE-MARK-MASQ")

    def _external_entry(self, frontend: Frontend) -> None:
        if not frontend.backends:
            self._refusal(EXTERNAL_SERVICES, frontend)
        if not _is_reachable(frontend):
            return
        if frontend.published_as is Publication.NODE_PORT:
            protocol = self._port.protocol
            match = f"-p {protocol} {self._comment()} -m {protocol} --dport {frontend.key.port}"
            self._share(NODE_PORTS, match, self._chain["EXT"])
            return
        is_guarded = frontend.source_ranges is not None
        comment = self._comment(frontend.published_as.value)
        self._share(SERVICES, _match(frontend, comment), self._chain["FW" if is_guarded else "EXT"])
        if is_guarded:  # what the chain did not let through still has this address
            refused = self._comment(f"traffic not accepted by {self._chain['FW'].name}")
            self._shared.setdefault(PROXY_FIREWALL, []).append(f"{_match(frontend, refused)} -j DROP")

    def _refusal(self, chain: Chain, frontend: Frontend) -> None:
        if frontend.when_empty is Verdict.DROP:
            target, words = "DROP", "has no local endpoints"
        else:
            target, words = reject(self._port.protocol, self._port.family), "has no endpoints"
        self._shared.setdefault(chain, []).append(f"{_match(frontend, self._comment(words))} -j {target}")

    def _health_check(self) -> None:
        """Load balancers come in, whatever rules of others follow."""
        number = next((f.health_check_port for f in self._internal if f.health_check_port), 0)
        if number:
            match = f"-p tcp {self._comment('health check node port')} -m tcp --dport {number}"
            self._shared.setdefault(FILTER_NODE_PORTS, []).append(f"{match} -j ACCEPT")

    def _share(self, chain: Chain, match: str, target: Chain) -> None:
        self._shared.setdefault(chain, []).append(f"{match} -j {target.name}")

    # --- The port's own chains -------------------------------------------------------------------------------

    def _external_chain(self) -> None:
        reachable = [f for f in self._external if _is_reachable(f)]
        if not reachable:
            return
        frontend = reachable[0]  # they differ only in their addresses
        rules = self._own.setdefault(self._chain["EXT"], [])
        to_cluster = f"-j {self._chain['SVC'].name}"
        if frontend.source_nat is SourceNat.ALWAYS:
            comment = self._about("masquerade traffic for", "external destinations")
            rules.append(f"{comment} -j KUBE-MARK-MASQ")
        if frontend.inside:
            pods = self._about("pod traffic for", "external destinations")
            rules += [f"{source} {pods} {to_cluster}" for source in self._from_insiders]
            masquerade = self._about("masquerade LOCAL traffic for", "external destinations")
            rules.append(f"{masquerade} -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ")
            route = self._about("route LOCAL traffic for", "external destinations")
            rules.append(f"{route} -m addrtype --src-type LOCAL {to_cluster}")
        if frontend.backends:
            rules.append(f"-j {self._policy(frontend).name}")

    def _firewall_chain(self) -> None:
        guarded = [f for f in self._external if f.source_ranges is not None and _is_reachable(f)]
        if not guarded:
            return
        comment = self._comment(guarded[0].published_as.value)
        rules = [f"-s {cidr} {comment} -j {self._chain['EXT'].name}" for cidr in guarded[0].source_ranges or ()]
        rules.append(self._about("other traffic to", "will be dropped by KUBE-PROXY-FIREWALL"))
        self._own[self._chain["FW"]] = rules

    def _balancing(self) -> None:
        """Filled once for each policy in use, by the first Frontend that tells its backends."""
        pools: dict[Chain, tuple[Backend, ...]] = {}
        affinity: int | None = None
        for frontend in (*self._internal, *self._external):
            affinity = affinity or frontend.affinity_seconds
            for chain, backends in ((self._policy(frontend), frontend.backends), (self._chain["SVC"], frontend.inside)):
                pools[chain] = pools.get(chain) or backends or ()
        for chain, backends in pools.items():
            if not backends:
                continue
            # In kube-proxy's order, which, unlike a Frontend's, does not depend on what was before.
            names = sorted({_endpoint(b): b for b in backends}.items())
            rules = self._own.setdefault(chain, [])
            if affinity is not None:
                rules += [self._stickiness(name, affinity) for name, _ in names]
            for index, (name, backend) in enumerate(names):
                left = len(names) - index
                chance = f" -m statistic --mode random --probability {1 / left:.10f}" if left > 1 else ""
                endpoint = self._endpoint_chain(name)
                rules.append(f"{self._comment(f'-> {name}')}{chance} -j {endpoint.name}")
                self._own.setdefault(endpoint, self._endpoint_rules(name, backend, endpoint, affinity))

    def _stickiness(self, name: str, seconds: int) -> str:
        endpoint = self._endpoint_chain(name)
        recent = f"-m recent --rcheck --seconds {seconds} --reap --name {endpoint.name} {self._mask()}"
        return f"{self._comment(f'-> {name}')} {recent} -j {endpoint.name}"

    def _endpoint_rules(self, name: str, backend: Backend, chain: Chain, affinity: int | None) -> list[str]:
        protocol, comment = self._port.protocol, self._comment()
        remember = f" -m recent --set --name {chain.name} {self._mask()}" if affinity is not None else ""
        return [
            f"-s {host(backend.address)} {comment} -j KUBE-MARK-MASQ",
            f"-p {protocol} {comment}{remember} -m {protocol} -j DNAT --to-destination {name}",
        ]

    def _endpoint_chain(self, name: str) -> Chain:
        return Chain("nat", _endpoint_chain(self._port, name))

    def _policy(self, frontend: Frontend) -> Chain:
        return self._chain["SVL" if frontend.is_local else "SVC"]

    def _mask(self) -> str:
        return f"--mask {_MASK[self._port.family]} --rsource"

    def _comment(self, words: str = "") -> str:
        text = f"{self._port.shown} {words}" if words else self._port.shown
        return f'-m comment --comment "{text}"'

    def _about(self, before: str, after: str) -> str:
        return f'-m comment --comment "{before} {self._port.shown} {after}"'


def _endpoint_chain(port: PortKey, name: str) -> str:
    return f"KUBE-SEP-{hash_of(port.owner + port.protocol + name)}"


def _match(frontend: Frontend, comment: str, interface: str = "") -> str:
    """The match on what a Frontend is addressed by, around one on an interface, and a comment."""
    protocol, port = frontend.key.protocol, frontend.key.port
    if frontend.published_as is Publication.NODE_PORT:
        return f"-p {protocol} {comment} -m addrtype --dst-type LOCAL -m {protocol} --dport {port}"
    return f"-d {host(frontend.key.address)} {interface}-p {protocol} {comment} -m {protocol} --dport {port}"


def _is_reachable(frontend: Frontend) -> bool:
    """Whether anybody at all can use it: from inside, perhaps, when not from outside."""
    return bool(frontend.backends or frontend.inside)


def _endpoint(backend: Backend) -> str:
    return join_host_port(backend.address, backend.port)
