"""Addresses and names that commands of lessons contain as `@name@`, with the shell commands that print them.

They are looked up each time that a command needs them: pods and their addresses change.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from .lesson import NAMESPACE

_GET = f"kubectl -n {NAMESPACE} get"
_NODE_IPS = "kubectl get nodes -o jsonpath='{.items[*].status.addresses[?(@.type==\"InternalIP\")].address}'"
_IPV4 = "tr ' ' '\\n' | grep -v :"
_WEB_NODES = f"{_GET} pods -l app=web -o jsonpath='{{.items[*].status.hostIP}}' | tr ' ' '\\n'"

LOOKUPS: dict[str, str] = {
    "web_ip": f"{_GET} service web -o jsonpath='{{.spec.clusterIP}}'",
    "node": "kubectl get nodes -o jsonpath='{.items[0].metadata.name}'",
    "pod": f"{_GET} pods -l app=web -o jsonpath='{{.items[0].metadata.name}}'",
    "pod_ip": f"{_GET} pods -l app=web -o jsonpath='{{.items[0].status.podIP}}'",
    "node_port": f"{_GET} service web-node -o jsonpath='{{.spec.ports[0].nodePort}}'",
    "local_port": f"{_GET} service web-local -o jsonpath='{{.spec.ports[0].nodePort}}'",
    "external_ip": f"{_GET} service web-lb -o jsonpath='{{.status.loadBalancer.ingress[0].ip}}'",
    "node_ips": f"{_NODE_IPS} | {_IPV4} | head -3 | paste -sd ' ' -",
    "pod_node_ip": f"{_WEB_NODES} | head -1",
    "empty_node_ip": f'{_NODE_IPS} | {_IPV4} | grep -vxF "$({_WEB_NODES})" | head -1',
}

_VALUE = re.compile(r"@([a-z_]+)@")


def names_in(command: str) -> Iterator[str]:
    """Yield the names of the values that a command contains."""
    yield from dict.fromkeys(match[1] for match in _VALUE.finditer(command))


def fill_in(command: str, find: Callable[[str], str]) -> str:
    """Return the command with each `@name@` replaced by `find(name)`."""
    return _VALUE.sub(lambda match: find(match[1]), command)
