"""Ports of a node that pods occupy.

Pure: no I/O, no clock, no randomness. Source: kube-scheduler's NodePorts plugin, which kubelets use, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from .core import PodSpec

HostPort = tuple[str, str, int]  # host address ("" for all), protocol, number

NO_FREE_PORTS: Final = "node(s) didn't have free ports for the requested pod ports"


def host_ports(spec: PodSpec) -> frozenset[HostPort]:
    """Return the host ports of a pod."""
    return frozenset(
        (port.host_ip if port.host_ip not in ("0.0.0.0", "::") else "", port.protocol, port.host_port)
        for container in (*spec.containers, *(c for c in spec.init_containers if c.is_sidecar))
        for port in container.ports
        if port.host_port
    )


def ports_conflict(wanted: Iterable[HostPort], taken: Iterable[HostPort]) -> bool:
    """Whether a port is wanted and taken on the same address, or on all addresses by one of the two."""
    taken = list(taken)
    return any(
        protocol == other_protocol and number == other_number and (address == other or not address or not other)
        for address, protocol, number in wanted
        for other, other_protocol, other_number in taken
    )
