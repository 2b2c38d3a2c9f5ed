"""Queries for external names: the upstream servers and what they answered.

routing          which upstreams are asked for which domain
forward          asks the upstreams of one domain: order, retries, verification of replies
health_checks    which upstreams are down, and probes until they answer
connection_pool  TCP and TLS connections to them, kept open for reuse
servers          addresses of upstreams as text: "tls://9.9.9.9%dns.quad9.net", resolv.conf
cache            what upstreams answered
"""

from .cache import Cache
from .forward import Forwarder, OutgoingQuery
from .routing import Denial, Target, plan_forwarders, plan_search
from .servers import parse_resolv_conf, parse_search, parse_server

__all__ = [
    "Cache",
    "Denial",
    "Forwarder",
    "OutgoingQuery",
    "Target",
    "parse_resolv_conf",
    "parse_search",
    "parse_server",
    "plan_forwarders",
    "plan_search",
]
