"""Makes the connection of a trace in one namespace, while its packets are captured in the namespaces of nodes."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from bridgehead.insight.network_namespaces import NetworkNamespace, NotEntered, OnlyPrograms
from bridgehead.network.flow_trace import Flow

from .node_capture import FlowEvents, Listening, Signal, listen
from .observed_path import chains_of
from .probing import Probe, ProbeResult, make_connection
from .program_probes import connection_commands, read_connection
from .rule_texts import RuleTexts, parse_listing

CALL_SECONDS = 5.0
PROGRAM_SECONDS = 4.0
_READY_SECONDS = 2.0
_LOOK_SECONDS = 0.002


@dataclass
class Followed:
    """`result`: None if no connection was made, for the reason `why_not`. `observed`: by node.

    `problems`: nodes at which it could not be followed, a line each.
    """

    result: ProbeResult | None
    why_not: str = ""
    observed: dict[str, FlowEvents] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


_known: WeakKeyDictionary[NetworkNamespace, bool] = WeakKeyDictionary()


async def only_programs(namespace: NetworkNamespace) -> bool:
    """Return whether only programs can run in a namespace. A namespace is asked once."""
    found = _known.get(namespace)
    if found is None:
        found = _known[namespace] = await _only_programs(namespace)
    return found


async def _only_programs(namespace: NetworkNamespace) -> bool:
    try:
        await namespace.call(os.path.exists, "/", seconds=CALL_SECONDS)
    except OnlyPrograms:
        return True
    except NotEntered:
        pass
    return False


async def connect(
    origin: NetworkNamespace, probe: Probe, watched: Mapping[str, tuple[NetworkNamespace, Flow]]
) -> Followed:
    """Make the connection, and follow it at the nodes of `watched`."""
    signals = {name: Signal() for name in watched}
    tasks = {
        name: asyncio.create_task(
            namespace.call(
                listen,
                Listening(flow=flow, signal=signals[name], seconds=_READY_SECONDS + CALL_SECONDS),
                seconds=_READY_SECONDS + 2 * CALL_SECONDS,
            )
        )
        for name, (namespace, flow) in watched.items()
    }
    try:
        await _await_ready(signals, tasks)
        try:
            found = Followed(await origin.call(make_connection, probe, seconds=CALL_SECONDS))
        except NotEntered as error:
            found = Followed(None, str(error))
        for signal in signals.values():
            signal.set_over()
        for name, task in tasks.items():
            try:
                found.observed[name] = await task
            except NotEntered as error:
                found.problems.append(f"packets at {name} could not be followed: {error}")
        return found
    finally:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)


async def _await_ready(signals: Mapping[str, Signal], tasks: Mapping[str, asyncio.Task[FlowEvents]]) -> None:
    """Wait until each node listens, or cannot."""
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline:
        if all(signal.is_ready or tasks[name].done() for name, signal in signals.items()):
            return
        await asyncio.sleep(_LOOK_SECONDS)


async def connect_by_programs(origin: NetworkNamespace, probe: Probe) -> Followed:
    """Make the connection by the first suitable program that the image has."""
    why = f"no program of an image makes {probe.protocol} connections"
    for argv in connection_commands(probe):
        why = "the image has none of nc, python3, bash, curl and wget"
        started = time.monotonic()
        try:
            done = await origin.run(argv, seconds=PROGRAM_SECONDS)
        except NotEntered as error:
            why = str(error)
            continue
        result = read_connection(argv, done, round((time.monotonic() - started) * 1000, 1))
        if result is not None:
            return Followed(result)
    return Followed(None, why)


async def rule_texts(node: NetworkNamespace, observed: FlowEvents, saved: Mapping[str, str]) -> tuple[RuleTexts, str]:
    """Return the texts of the rules that packets matched, and why there are none.

    `saved`: what iptables-save printed, by nft's family.
    """
    if not chains_of(observed.events):
        return {}, ""
    try:
        done = await node.run(("nft", "-a", "-t", "list", "ruleset"), seconds=CALL_SECONDS)
    except NotEntered as error:
        return {}, f"texts of the rules of {node.name}: {error}"
    return parse_listing(done.stdout.decode(errors="replace"), saved), ""
