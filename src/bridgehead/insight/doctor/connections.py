"""Causes in connection tracking: flows that lead to endpoints that are gone.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bridgehead.insight.facts.network_state import Connection, Section
from bridgehead.insight.facts.system_object_names import SYSTEM
from bridgehead.insight.findings import Finding, Severity
from bridgehead.proxy.frontends import Frontend, FrontendKey
from bridgehead.proxy.userspace.redirects import LISTENING

from .kernels import NodeKernel
from .proxies import proxy_pods
from .subjects import Facts, ServiceView, kubectl, names_of


def check_connections(view: ServiceView, facts: Facts) -> Iterator[Finding]:
    """Yield UDP flows to endpoints that are gone, and TCP connections that still are open to such."""
    if not view.service.is_proxied or not view.sees_slices:
        return
    for node in facts.kernels.values():
        if not node.has_seen(Section.CONNECTIONS) or not node.has_proxy:
            continue
        udp, open_ = [], []
        for frontend in node.expected.frontends_of(view.key):
            for connection in _translated(node, facts).get(frontend.key, ()):
                if not _is_gone(connection, frontend, view, facts):
                    continue
                if connection.protocol == "udp":
                    udp.append(connection)
                elif connection.state == "ESTABLISHED":
                    open_.append(connection)
        if udp:
            yield view.finding(
                "ConnectionsStale",
                f"On node {node.name}, {len(udp)} UDP flows still lead to {_backends(udp)}, where the Service has no "
                "endpoint any more: packets of these clients get no answer for as long as they keep sending.",
                fix=f"conntrack -D -p udp --reply-src {udp[0].reply_source.address}",
                evidence=[*(_text(each) for each in udp[:5]), _proxy_text(node, facts)],
                severity=Severity.DEGRADED,
            )
            return
        if open_:
            yield view.finding(
                "ConnectionsToGonePods",
                f"On node {node.name}, {len(open_)} TCP connections are open to {_backends(open_)}, where the Service "
                "has no endpoint any more. Clients that only wait for an answer wait for ever.",
                fix=f"conntrack -D -p tcp --reply-src {open_[0].reply_source.address}",
                evidence=[_text(each) for each in open_[:5]],
                severity=Severity.NOTICE,
            )
            return


def _translated(node: NodeKernel, facts: Facts) -> Mapping[FrontendKey, list[Connection]]:
    """Return the connections whose destination was translated, by Frontend."""
    return node.memo(("connections",), lambda: _find_translated(node, facts))


def _find_translated(node: NodeKernel, facts: Facts) -> dict[FrontendKey, list[Connection]]:
    found: dict[FrontendKey, list[Connection]] = {}
    table = node.expected.table
    own = {address for each in facts.cluster.nodes.values() for address in each.internal_ips}
    for connection in node.state.connections:
        if connection.reply_source == connection.destination or connection.reply_source.address in LISTENING.values():
            continue
        key = FrontendKey(connection.destination.address, connection.protocol, connection.destination.port)
        if table.get(key) is None and key.address in own:
            key = key.node_port
        if table.get(key) is not None:
            found.setdefault(key, []).append(connection)
    return found


def _is_gone(connection: Connection, frontend: Frontend, view: ServiceView, facts: Facts) -> bool:
    """Whether no endpoint of the Service, also none that is not ready, and no pod has the connection's backend."""
    address, port = connection.reply_source.address, connection.reply_source.port
    if any(address in endpoint.addresses for endpoint in view.endpoints):
        return False
    if any((each.address, each.port) == (address, port) for each in frontend.backends):
        return False
    return address not in facts.cluster.pods_by_address and address not in facts.cluster.nodes_by_address


def _backends(connections: list[Connection]) -> str:
    return names_of(sorted({f"{each.reply_source.address}:{each.reply_source.port}" for each in connections}))


def _text(connection: Connection) -> str:
    source, destination, reply = connection.source, connection.destination, connection.reply_source
    return (
        f"{connection.protocol} {source.address}:{source.port} -> {destination.address}:{destination.port}, "
        f"answered by {reply.address}:{reply.port}{f', {connection.state}' if connection.state else ''}"
    )


def _proxy_text(node: NodeKernel, facts: Facts) -> str:
    pod = proxy_pods(facts).get(node.name)
    if pod is None:
        return "no service proxy runs on the node, which would remove these flows"
    return f"the node's service proxy removes such flows: {kubectl(SYSTEM, 'logs', pod.metadata.name)}"
