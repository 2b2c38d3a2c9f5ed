"""The outside of a DNS process: sockets, the address on the node, metrics, the query log.

server          UDP and TCP sockets
socket_options  UDP replies from the address that was asked; socket options that Python lacks
node_local      the address of the cluster DNS, served on the node itself
metrics         metrics under CoreDNS' names
query_log       one log line per query, as CoreDNS' `log` writes it
"""

from .metrics import DnsMetrics
from .node_local import Holder, LocalHolder, RemoteHolder, hold_for_workers
from .query_log import QueryLog
from .server import DnsServer, Limits, LogQuery, open_sockets

__all__ = [
    "DnsMetrics",
    "DnsServer",
    "Holder",
    "Limits",
    "LocalHolder",
    "LogQuery",
    "QueryLog",
    "RemoteHolder",
    "hold_for_workers",
    "open_sockets",
]
