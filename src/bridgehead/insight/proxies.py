"""The nodes' service proxies: the mode of each, and why one does not run or is not in the mode that it should be in.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from bridgehead.objects.coordination import Lease
from bridgehead.objects.core import Pod
from bridgehead.objects.progress import Progress, read_progress

from .facts.system_object_names import is_proxy_pod


class ProxyState(NamedTuple):
    """A node's proxy. `mode`: as text for a table. `problem`: a sentence without its subject; "" if all is well."""

    mode: str
    problem: str = ""


def proxy_states(nodes: Iterable[str], pods: Iterable[Pod], leases: Iterable[Lease]) -> dict[str, ProxyState]:
    """Return the state of each node's proxy, from its pod and from the Lease in which it publishes its progress."""
    return states_of_progress(nodes, pods, filter(None, map(read_progress, leases)))


def states_of_progress(
    nodes: Iterable[str], pods: Iterable[Pod], progress: Iterable[Progress]
) -> dict[str, ProxyState]:
    """Return the states as `proxy_states` does, from Leases that were read before."""
    published = {proxy.node: proxy.mode for proxy in progress}
    running = {
        pod.spec.node_name: pod
        for pod in sorted(pods, key=lambda pod: not pod.is_terminating)  # the successor of a terminating pod counts
        if is_proxy_pod(pod)
    }
    found = {}
    for node in nodes:
        mode = published.get(node)
        name = mode.name if mode is not None else ""
        pod = running.get(node)
        if pod is None or not pod.is_ready:
            why = _why_not_ready(pod) if pod is not None else "there is no pod of it"
            found[node] = ProxyState(f"{name}, not running" if name else "-, not running", f"does not run: {why}")
        elif mode is not None and mode.wanted != mode.name:
            found[node] = ProxyState(f"{name}, not {_shown(mode.wanted)}", f"warns: {_shown(mode.problem)}")
        else:
            problem = mode.problem if mode is not None else ""
            found[node] = ProxyState(name or "-", f"warns: {_shown(problem)}" if problem else "")
    return found


def _why_not_ready(pod: Pod) -> str:
    """Return why a pod's container does not run: its state's reason, and the last line of its last message."""
    for status in pod.status.container_statuses:
        waiting, ended = status.state.waiting, status.state.terminated or status.last_state.terminated
        message = (ended.message if ended is not None else "").strip() or (waiting.message if waiting else "")
        reason = (waiting.reason if waiting else "") or (ended.reason if ended is not None else "")
        lines = message.strip().splitlines()
        text = ": ".join(filter(None, (reason, _shown(lines[-1]) if lines else "")))
        if text and status.state.running is None:
            return text
    return "its pod is not ready"


def _shown(text: str) -> str:
    """Return a text that anybody may have written as one line without control characters."""
    return "".join(character if character.isprintable() else "?" for character in text[:500])
