"""Detection of a kube-proxy that has taken this node over: its pages show its mode and whether it has written rules.

`process.py` waits for it before it removes rules of this proxy, which serve until then.
"""

from __future__ import annotations

import asyncio
import http.client
import logging
import re
from typing import NamedTuple

from bridgehead.objects.addresses import join_host_port

log = logging.getLogger(__name__)

_MODES = ("iptables", "ipvs", "nftables")
_POLL_SECONDS = 0.5
_TIMEOUT_SECONDS = 5.0
_MOST_BYTES = 8 << 20  # of a page of metrics
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}
_LAST_SYNC = re.compile(
    r"^kubeproxy_sync_proxy_rules_last_timestamp_seconds(?:\{[^}]*\})? (\S+)$", re.MULTILINE
).findall
_OURS = re.compile(r"^bridgehead_proxy_", re.MULTILINE).search


class Successor(NamedTuple):
    """The proxy that serves this node: kube-proxy in a mode, or Bridgehead, whose first sync removes leftovers itself.

    `problem`: why it does not serve yet; "" if it does.
    """

    mode: str = ""
    is_bridgehead: bool = False
    problem: str = ""


def successor_of(mode: str, metrics: str) -> Successor:
    """Return what the pages /proxyMode and /metrics show. Pure."""
    mode = mode.strip()
    is_bridgehead = _OURS(metrics) is not None
    if mode not in _MODES and not is_bridgehead:
        return Successor(problem=f"its mode is {mode[:40]!r}, instead of {', '.join(_MODES[:-1])} or {_MODES[-1]}")
    times = _LAST_SYNC(metrics)
    if not times or not all(map(_is_positive, times)):
        return Successor(problem="it has not written its rules yet")
    return Successor(mode, is_bridgehead)


async def await_successor(address: str, port: int) -> Successor:
    """Return the proxy of this node, when it has written its rules. The log shows what is waited for."""
    where, last = (_LOOPBACK.get(address, address), port), ""
    while True:
        successor = await asyncio.to_thread(_ask, *where)
        if not successor.problem:
            name = "Bridgehead's proxy" if successor.is_bridgehead else "kube-proxy"
            log.info("%s serves this node in mode %s", name, successor.mode)
            return successor
        if successor.problem != last:
            last = successor.problem
            log.info("waiting for kube-proxy at %s: %s", join_host_port(*where), last)
        await asyncio.sleep(_POLL_SECONDS)


def _ask(address: str, port: int) -> Successor:
    try:
        return successor_of(_get(address, port, "/proxyMode"), _get(address, port, "/metrics"))
    except (OSError, http.client.HTTPException) as error:
        return Successor(problem=f"it does not answer ({error or type(error).__name__})")


def _get(address: str, port: int, path: str) -> str:
    connection = http.client.HTTPConnection(address, port, timeout=_TIMEOUT_SECONDS)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        text = response.read(_MOST_BYTES).decode(errors="replace")
    finally:
        connection.close()
    if response.status != http.HTTPStatus.OK:
        raise http.client.HTTPException(f"{path}: HTTP status {response.status}")
    return text


def _is_positive(number: str) -> bool:
    try:
        return float(number) > 0
    except ValueError:
        return False
