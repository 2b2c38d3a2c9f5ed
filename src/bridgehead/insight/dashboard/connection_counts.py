"""Connections of nodes by Service and backend, from connection tracking.

A connection belongs to a Service if its client connected to one of the Service's addresses and the replies come from
another one: the backend. Only the node where the address was translated has such an entry, so none counts twice.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from bridgehead.insight.facts.network_state import Connection
from bridgehead.insight.live.rows import NodeRow, ServiceRow

from .flow_watch import Count

_PORT = re.compile(r"(?:^|\s)(\d+)(?::(\d+))?/(TCP|UDP|SCTP)$")
_ENDED = frozenset(("TIME_WAIT", "CLOSE", "LAST_ACK"))  # connection tracking remembers these for a while

Address = tuple[str, str, int]  # protocol, address, port


def service_addresses(services: Iterable[ServiceRow], nodes: Iterable[NodeRow]) -> dict[Address, str]:
    """Return the Services (NAMESPACE/NAME) by the addresses at which they take connections, node ports included."""
    own = [node.ip for node in nodes if node.ip]
    found: dict[Address, str] = {}
    for service in services:
        if service.type == "ExternalName":
            continue
        addresses = [each for each in (*service.cluster_ips, *service.external) if each and each != "None"]
        for text in service.ports:
            port = _PORT.search(text)
            if port is None:
                continue
            protocol = port[3].lower()
            for address in addresses:
                found[protocol, address, int(port[1])] = service.key
            if port[2]:
                for address in own:
                    found.setdefault((protocol, address, int(port[2])), service.key)
    return found


def count_connections(connections: Iterable[Connection], services: Mapping[Address, str]) -> Count:
    """Return the connections by Service and backend, with those that have ended and those without an answer."""
    paths: dict[tuple[str, str], set[int]] = {}
    failing: dict[str, set[int]] = {}
    ended = set()
    for each in connections:
        service = services.get((each.protocol, each.destination.address, each.destination.port))
        if service is None or each.reply_source == each.destination:
            continue
        identity = hash((each.protocol, each.source, each.destination, each.reply_source, each.reply_destination))
        paths.setdefault((service, each.reply_source.address), set()).add(identity)
        if each.is_unreplied:
            failing.setdefault(service, set()).add(identity)
        if each.state in _ENDED:
            ended.add(identity)
    return Count(
        paths={path: frozenset(found) for path, found in paths.items()},
        failing={service: frozenset(found) for service, found in failing.items()},
        ended=frozenset(ended),
    )
