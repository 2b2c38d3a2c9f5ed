"""Names outside of the cluster: the part of the DNS's Corefile for them, and nodes' resolv.conf.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from typing import Final

from .gateway.addressing import OUTSIDE
from .plan import LabConfig

_NONE: Final = """\
# Nothing is outside a lab. To ask a name server that runs in it, put its address here: forward . 10.0.0.1:5353
.:53 {
    template ANY ANY {
        rcode NXDOMAIN
    }
}"""
_FORWARDED: Final = """\
# The machine's name server, through the lab's gateway (bridgehead up --outside).
.:53 {{
    errors
    forward . {server}
    cache
}}"""


def render_outside_names(config: LabConfig) -> str:
    """Return the part of the Corefile for names outside of the cluster."""
    return _FORWARDED.format(server=name_server(config)) if config.outside else _NONE


def name_server(config: LabConfig) -> str:
    """Return the address at which a lab with `outside` reaches the machine's name server."""
    return OUTSIDE[config.ranges[0].version].name_server


def render_node_resolver(config: LabConfig) -> str:
    """Return the resolv.conf of nodes for pods with `dnsPolicy: Default`; "" for none."""
    return f"nameserver {name_server(config)}\n" if config.outside else ""
