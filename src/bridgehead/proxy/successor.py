"""Detection of a kube-proxy that has taken this node over: its pages show its mode and whether it has written rules.

`process.py` waits for it before it removes rules of this proxy, which serve until then.

The first sync of a kube-proxy before 1.32 may lack Services and endpoints: it begins when all have been received, not
when all have been handled (kubernetes #126468). Those that are handled later request a second one.
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
_REQUESTED_SECONDS = 60.0  # after which requests of syncs are those of a cluster that changes all the time
_MOST_BYTES = 8 << 20  # of a page of metrics
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}
_LAST_SYNC = re.compile(
    r"^kubeproxy_sync_proxy_rules_last_timestamp_seconds(?:\{[^}]*\})? (\S+)$", re.MULTILINE
).findall
_SYNCS = re.compile(
    r"^kubeproxy_sync_proxy_rules_((?:last|last_queued)_timestamp_seconds|duration_seconds_(?:count|sum)) (\S+)$",
    re.MULTILINE,
).findall
_OURS = re.compile(r"^bridgehead_proxy_", re.MULTILINE).search


class Syncs(NamedTuple):
    """kube-proxy's syncs: when the last one ended and one was last requested, how many there were, their time in all.

    Zeros if it does not show them, or shows them for each IP family, as from 1.32 on.
    """

    ended: float = 0.0
    requested: float = 0.0
    number: float = 0.0
    seconds: float = 0.0


class Successor(NamedTuple):
    """The proxy that serves this node: kube-proxy in a mode, or Bridgehead, whose first sync removes leftovers itself.

    `problem`: why it does not serve yet; "" if it does.
    """

    mode: str = ""
    is_bridgehead: bool = False
    problem: str = ""
    syncs: Syncs = Syncs()


def successor_of(mode: str, metrics: str) -> Successor:
    """Return what the pages /proxyMode and /metrics show. Pure."""
    mode = mode.strip()
    is_bridgehead = _OURS(metrics) is not None
    if mode not in _MODES and not is_bridgehead:
        return Successor(problem=f"its mode is {mode[:40]!r}, instead of {', '.join(_MODES[:-1])} or {_MODES[-1]}")
    times = _LAST_SYNC(metrics)
    if not times or not all(_number(time) > 0 for time in times):
        return Successor(problem="it has not written its rules yet")
    return Successor(mode, is_bridgehead, syncs=Syncs() if is_bridgehead else _syncs(metrics))


def _syncs(metrics: str) -> Syncs:
    found = {name: _number(value) for name, value in _SYNCS(metrics)}
    names = (
        "last_timestamp_seconds",
        "last_queued_timestamp_seconds",
        "duration_seconds_count",
        "duration_seconds_sum",
    )
    return Syncs(*(found[name] for name in names)) if len(found) == len(names) else Syncs()


class Waiting:
    """Decides whether a proxy serves, which is asked again and again. Pure: no I/O, no clock, no randomness."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._since: float | None = None  # when it had rules
        self._seen = Syncs()
        self._seconds = 0.0  # of a sync

    def problem(self, successor: Successor, now: float) -> str:
        """Return why the proxy does not serve yet; "" if it does. `now`: seconds of any one clock."""
        if successor.problem:
            self._begin()  # it may have been started again
            return successor.problem
        if self._since is None:
            self._since = now
        syncs = successor.syncs
        if syncs.number > self._seen.number:
            self._seconds = (syncs.seconds - self._seen.seconds) / (syncs.number - self._seen.number)
            self._seen = syncs
        is_requested = syncs.requested > syncs.ended - self._seconds
        return "it writes its rules once more" if is_requested and now - self._since < _REQUESTED_SECONDS else ""


async def await_successor(address: str, port: int) -> Successor:
    """Return the proxy of this node, when it has written its rules. The log shows what is waited for."""
    where, last, waiting = (_LOOPBACK.get(address, address), port), "", Waiting()
    while True:
        successor = await asyncio.to_thread(_ask, *where)
        problem = waiting.problem(successor, asyncio.get_running_loop().time())
        if not problem:
            name = "Bridgehead's proxy" if successor.is_bridgehead else "kube-proxy"
            log.info("%s serves this node in mode %s", name, successor.mode)
            return successor
        if problem != last:
            last = problem
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


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
