"""One Service port: its own chains, and its lines in the chains that all Service ports share.

Pure: no I/O, no clock, no randomness.

`render.py` calls it. The Frontends of a Service port (one family, one protocol) together give:

    KUBE-SVC-*  one of the backends of the whole cluster      KUBE-SVL-*  one of the backends on this node
    KUBE-EXT-*  connections to the node port and to published addresses, by externalTrafficPolicy
    KUBE-FW-*   sources that may use load-balancer addresses  KUBE-SEP-*  one backend
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

from bridgehead.objects.addresses import join_host_port
from bridgehead.proxy.address_texts import Family, is_loopback
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
    from_outside,
    hash_of,
    host,
    internal_sources,
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
        """The owner for comments, as a hash if it has characters that a name cannot have."""
        return self.owner if _is_harmless(self.owner) else f"unnamed/{hash_of(self.owner)}"


class PortRules(NamedTuple):
    """The rules of a Service port. `own`: its chains; `shared`: its lines in chains that all ports share."""

    own: dict[Chain, Rules]
    shared: dict[Chain, Rules]


def port_of(frontend: Frontend) -> PortKey:
    return PortKey(frontend.key.family, frontend.owner, frontend.key.protocol)


def render_port(port: PortKey, frontends: Iterable[Frontend], settings: Settings) -> PortRules:
    """Return the rules of one Service port. `frontends`: all of its Frontends, in any order."""
    return _Port(port, sorted(frontends, key=lambda f: (_RANK[f.published_as], f.key)), settings).render()


def has_chain(port: PortKey, frontends: Iterable[Frontend], names: Collection[str]) -> bool:
    """Return whether one of these names can be a chain of the port. Much cheaper than rendering the port."""
    digest = hash_of(port.owner + port.protocol)
    if any(f"KUBE-{kind}-{digest}" in names for kind in _KINDS):
        return True
    backends = {b for frontend in frontends for b in (*frontend.backends, *(frontend.cluster_backends or ()))}
    return any(_endpoint_chain(port, _endpoint(backend)) in names for backend in backends)


_KINDS = ("SVC", "SVL", "EXT", "FW")
_RANK = {kind: rank for rank, kind in enumerate(Publication)}


class _Port:
    def __init__(self, port: PortKey, frontends: list[Frontend], settings: Settings) -> None:
        self._port = port
        self._internal = [f for f in frontends if f.published_as is Publication.CLUSTER_IP]
        self._external = [f for f in frontends if f.published_as is not Publication.CLUSTER_IP]
        self._internal_sources = internal_sources(port.family, settings)
        self._from_outside = from_outside(port.family, settings)
        digest = hash_of(port.owner + port.protocol)
        self._chain = {kind: Chain("nat", f"KUBE-{kind}-{digest}") for kind in _KINDS}
        self._own: dict[Chain, list[str]] = {}
        self._shared: dict[Chain, list[str]] = {}

    def render(self) -> PortRules:
        for frontend in self._internal:
            self._add_internal(frontend)
        for frontend in self._external:
            self._add_external(frontend)
        self._health_check()
        self._external_chain()
        self._firewall_chain()
        self._balancing()
        return PortRules(
            {chain: tuple(rules) for chain, rules in self._own.items()},
            {chain: tuple(rules) for chain, rules in self._shared.items()},
        )

    # --- Lines in shared chains ------------------------------------------------------------------------------

    def _add_internal(self, frontend: Frontend) -> None:
        if not frontend.backends:
            self._reject(FILTER_SERVICES, frontend)
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

    def _add_external(self, frontend: Frontend) -> None:
        if not frontend.backends:
            self._reject(EXTERNAL_SERVICES, frontend)
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
        if is_guarded:  # packets that the chain did not let through still have this address
            denied = self._comment(f"traffic not accepted by {self._chain['FW'].name}")
            self._shared.setdefault(PROXY_FIREWALL, []).append(f"{_match(frontend, denied)} -j DROP")

    def _reject(self, chain: Chain, frontend: Frontend) -> None:
        if frontend.when_empty is Verdict.DROP:
            target, reason = "DROP", "has no local endpoints"
        else:
            target, reason = reject(self._port.protocol, self._port.family), "has no endpoints"
        self._shared.setdefault(chain, []).append(f"{_match(frontend, self._comment(reason))} -j {target}")

    def _health_check(self) -> None:
        """Accept health checks of load balancers, whatever rules of others follow."""
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
        frontend = reachable[0]  # all differ only in their addresses
        rules = self._own.setdefault(self._chain["EXT"], [])
        to_cluster = f"-j {self._chain['SVC'].name}"
        if frontend.source_nat is SourceNat.ALWAYS:
            comment = self._about("masquerade traffic for", "external destinations")
            rules.append(f"{comment} -j KUBE-MARK-MASQ")
        if frontend.cluster_backends:
            pods = self._about("pod traffic for", "external destinations")
            rules += [f"{source} {pods} {to_cluster}" for source in self._internal_sources]
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
        """Write the chain of each policy in use, from the first Frontend that has its backends."""
        pools: dict[Chain, tuple[Backend, ...]] = {}
        affinity: int | None = None
        for frontend in (*self._internal, *self._external):
            affinity = affinity or frontend.affinity_seconds
            for chain, backends in (
                (self._policy(frontend), frontend.backends),
                (self._chain["SVC"], frontend.cluster_backends),
            ):
                pools[chain] = pools.get(chain) or backends or ()
        for chain, backends in pools.items():
            if not backends:
                continue
            # kube-proxy's order, which does not depend on earlier backends, as a Frontend's does.
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
        record = f" -m recent --set --name {chain.name} {self._mask()}" if affinity is not None else ""
        return [
            f"-s {host(backend.address)} {comment} -j KUBE-MARK-MASQ",
            f"-p {protocol} {comment}{record} -m {protocol} -j DNAT --to-destination {name}",
        ]

    def _endpoint_chain(self, name: str) -> Chain:
        return Chain("nat", _endpoint_chain(self._port, name))

    def _policy(self, frontend: Frontend) -> Chain:
        return self._chain["SVL" if frontend.is_local else "SVC"]

    def _mask(self) -> str:
        return f"--mask {_MASK[self._port.family]} --rsource"

    def _comment(self, purpose: str = "") -> str:
        text = f"{self._port.shown} {purpose}" if purpose else self._port.shown
        return f'-m comment --comment "{text}"'

    def _about(self, before: str, after: str) -> str:
        return f'-m comment --comment "{before} {self._port.shown} {after}"'


def _endpoint_chain(port: PortKey, name: str) -> str:
    return f"KUBE-SEP-{hash_of(port.owner + port.protocol + name)}"


def _match(frontend: Frontend, comment: str, interface: str = "") -> str:
    """Return the match for a Frontend's destination, which includes a match for an interface, and a comment."""
    protocol, port = frontend.key.protocol, frontend.key.port
    if frontend.published_as is Publication.NODE_PORT:
        return f"-p {protocol} {comment} -m addrtype --dst-type LOCAL -m {protocol} --dport {port}"
    # The kernel drops packets from others to loopback addresses only after their address would be a pod's already.
    source = "-m addrtype --src-type LOCAL " if is_loopback(frontend.key.address) else ""
    return f"-d {host(frontend.key.address)} {interface}-p {protocol} {comment} {source}-m {protocol} --dport {port}"


def _is_reachable(frontend: Frontend) -> bool:
    """Return whether any client gets a backend: pods of this node may, when others do not."""
    return bool(frontend.backends or frontend.cluster_backends)


def _endpoint(backend: Backend) -> str:
    return join_host_port(backend.address, backend.port)
