"""The verdict on a connection: whether it works, the step where it died, and how the kernel differs from the objects.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from bridgehead.network.flow_lookup import TrackedFlow
from bridgehead.objects.addresses import join_host_port

from .expected_path import Choice, Expectation, Fate
from .observed_path import Hop, Journey, PacketPath
from .probing import Outcome, ProbeResult

_USERSPACE = "userspace"


class StepName:
    """The steps of a connection, in their order."""

    NAME = "name"
    SERVICE = "Service"
    POLICY = "policy"
    RULES = "rules"
    BACKENDS = "backends"
    ROUTE = "route"
    POD = "pod"
    CONNECTION = "connection"


class Death(NamedTuple):
    """The step at which the connection ended before its server answered, and a clause with the reason."""

    step: str
    because: str


@dataclass(frozen=True, kw_only=True)
class Observation:
    """The expectation for a connection, and what was seen of it.

    `destination`: the address and port to which it was made. `node`: whose rules it meets first, "" if unknown.
    `probe`: None if no connection was made. `tracked`: the flow at that node after the connection; None if connection
    tracking does not have it, or was not asked. `journeys`: of the nodes where the kernel reported packets. `watched`:
    the nodes that were asked to. `listens`: by `address:port`, whether a process listens there; those that could not
    be looked at are left out. `rule_differences`: between the kernel's rules and the expected ones.
    """

    destination: tuple[str, int]
    protocol: str
    node: str
    expectation: Expectation
    mode: str = ""
    probe: ProbeResult | None = None
    tracked: TrackedFlow | None = None
    journeys: tuple[Journey, ...] = ()
    watched: tuple[str, ...] = ()
    listens: Mapping[str, bool] = field(default_factory=dict)
    pods: Mapping[str, str] = field(default_factory=dict)  # namespace/name by address
    rule_differences: tuple[str, ...] = ()

    @property
    def translated_to(self) -> tuple[str, int] | None:
        """The address to which the first node sent the connection in place of its destination; None if to no other.

        The kernel forgets a connection that is refused at once; then the packets show it.
        """
        found = self.tracked.reply_source if self.tracked is not None else None
        if found is None:
            packet = next((one.request for one in self.journeys if one.node == self.node), None)
            found = (packet.last.destination, packet.last.destination_port) if packet is not None else None
        return found if found != self.destination else None

    @property
    def backend(self) -> tuple[str, int] | None:
        """The server that got the connection, as far as the kernel knows it."""
        if _is_relayed(self):
            choices = self.expectation.choices
            return (choices[0].backend.address, choices[0].backend.port) if len(choices) == 1 else None
        if self.translated_to is not None:
            return self.translated_to
        if self.expectation.fate is Fate.UNTRANSLATED and self.probe is not None:
            return self.destination
        return None

    @property
    def client(self) -> str:
        """The address that the server sees; "" if the kernel does not know it."""
        if self.mode == _USERSPACE or self.tracked is None:
            return ""
        return self.tracked.reply_destination[0]

    def named(self, address: tuple[str, int]) -> str:
        pod = self.pods.get(address[0])
        return f"pod {pod} ({join_host_port(*address)})" if pod else join_host_port(*address)


def works(seen: Observation) -> bool | None:
    """Return whether the connection works; None if it was not made, and should work."""
    if seen.probe is None or seen.probe.outcome is Outcome.NOT_TRIED:
        return False if find_death(seen) else None
    if seen.probe.has_succeeded:
        return True
    return seen.probe.outcome is Outcome.SENT and find_death(seen) is None


def find_death(seen: Observation) -> Death | None:
    """Return the step where the connection ended; None if it did not, as far as anything is known."""
    if seen.probe is None or seen.probe.outcome is Outcome.NOT_TRIED:
        return _expected_death(seen)
    if seen.probe.has_succeeded:
        return None
    for one in seen.journeys:
        packet = one.ended
        if packet is not None and packet.end is not None:
            return _ended_by_rule(seen, one, packet, packet.end)
    if seen.probe.outcome is Outcome.CLOSED or (_is_relayed(seen) and seen.probe.outcome is Outcome.REFUSED):
        return _without_backend(seen, seen.probe)
    backend = seen.backend
    if backend is not None:
        return _without_answer(seen, seen.probe, backend)
    if seen.probe.outcome is Outcome.UNREACHABLE:
        return Death(StepName.ROUTE, f"the origin cannot send to {join_host_port(*seen.destination)}: {seen.probe.why}")
    if seen.expectation.fate in (Fate.REJECTED, Fate.DROPPED):
        return Death(
            StepName.RULES, f"{seen.node or 'the node'} {seen.expectation.fate} it: {seen.expectation.because}"
        )
    if seen.listens and not any(seen.listens.values()):
        return Death(StepName.POD, f"no process listens on {seen.protocol} at {', '.join(sorted(seen.listens))}")
    if seen.probe.outcome is Outcome.SENT and (_is_relayed(seen) or not seen.watched):
        return None
    if _was_lost_before(seen):
        return Death(StepName.ROUTE, f"no packet of it reached {seen.node or 'a node'}: {_outcome(seen.probe)}")
    if seen.watched:
        return Death(StepName.RULES, f"{seen.node or 'the node'} did not translate it: {_outcome(seen.probe)}")
    return Death(StepName.CONNECTION, f"{_outcome(seen.probe)}; it could not be followed at any node")


def _is_relayed(seen: Observation) -> bool:
    """Whether a userspace proxy took the connection."""
    return seen.mode == _USERSPACE and seen.expectation.fate in (Fate.TRANSLATED, Fate.UNKNOWN)


def _without_backend(seen: Observation, probe: ProbeResult) -> Death:
    """Explain a connection that was taken and then closed."""
    if seen.listens and not any(seen.listens.values()):
        return Death(StepName.POD, f"no process listens on {seen.protocol} at {', '.join(sorted(seen.listens))}")
    if _is_relayed(seen):
        return Death(StepName.POD, f"the proxy of {seen.node} took it, but reached no backend: {probe.why}")
    return Death(StepName.POD, probe.why)


def _expected_death(seen: Observation) -> Death | None:
    expectation = seen.expectation
    if expectation.fate in (Fate.REJECTED, Fate.DROPPED):
        return Death(StepName.RULES, f"it should be {expectation.fate}: {expectation.because}")
    known = [seen.listens.get(join_host_port(one.backend.address, one.backend.port)) for one in expectation.choices]
    if known and all(found is False for found in known):
        return Death(StepName.POD, "no backend has a process that listens on the port")
    return None


def _ended_by_rule(seen: Observation, at: Journey, packet: PacketPath, hop: Hop) -> Death:
    what = "a reply" if packet.is_reply else "it"
    rule = f"{hop.chain}: {hop.rule}" if hop.rule else hop.chain
    done = {"drop": "dropped", "reject": "rejected"}.get(hop.verdict, hop.verdict)
    text = f"{at.node} {done} {what} ({rule})"
    if not packet.is_reply and at.node == seen.node and seen.expectation.fate in (Fate.REJECTED, Fate.DROPPED):
        text = f"{seen.expectation.because}; {text}"
    return Death(StepName.RULES, text)


def _without_answer(seen: Observation, probe: ProbeResult, backend: tuple[str, int]) -> Death | None:
    """Explain a connection that was translated, or needed no translation, and got no answer."""
    name = seen.named(backend)
    is_listening = seen.listens.get(join_host_port(*backend))
    if is_listening is False:
        return Death(StepName.POD, f"no process of {name} listens on {seen.protocol} port {backend[1]}")
    if probe.outcome is Outcome.REFUSED:
        return Death(StepName.POD, f"{name} refused it")
    if probe.outcome is Outcome.UNREACHABLE:
        return Death(StepName.ROUTE, f"{name} cannot be reached: {probe.why}")
    if probe.outcome is Outcome.SENT:
        return None
    if seen.tracked is not None and seen.tracked.has_reply:
        return Death(StepName.ROUTE, f"{name} answered, but the answer did not come back to the client")
    node = next((c.backend.node for c in seen.expectation.choices if c.backend.address == backend[0]), "")
    if node and node != seen.node and node in seen.watched:
        if not any(one.request for one in seen.journeys if one.node == node):
            return Death(StepName.ROUTE, f"{seen.node} sent it to {name}, but it did not arrive at {node}")
        return Death(StepName.POD, f"{node} passed it to {name}, which did not answer")
    return Death(StepName.POD, f"{name} did not answer: {_outcome(probe)}")


def _outcome(probe: ProbeResult) -> str:
    return f"{probe.outcome} ({probe.why})" if probe.why else str(probe.outcome)


def differences(seen: Observation) -> tuple[str, ...]:
    """Return how the kernel differs from what the objects of the API ask for, a sentence each."""
    return tuple(dict.fromkeys((*_fate_differences(seen), *seen.rule_differences)))


def _fate_differences(seen: Observation) -> Iterator[str]:
    probe, expectation = seen.probe, seen.expectation
    if probe is None or probe.outcome is Outcome.NOT_TRIED:
        return
    where = seen.node or "the node"
    if expectation.fate is Fate.TRANSLATED:
        if seen.mode == _USERSPACE:
            return
        if seen.translated_to is not None:
            yield from _choice_differences(seen, seen.translated_to)
        elif probe.outcome is not Outcome.SENT and seen.watched and not _was_lost_before(seen):
            yield f"{where} should have sent it to a backend, but did not translate it: {_outcome(probe)}"
    elif expectation.fate in (Fate.REJECTED, Fate.DROPPED):
        if probe.has_succeeded:
            to = f" by {seen.named(seen.tracked.reply_source)}" if seen.tracked is not None else ""
            yield f"{where} should have {expectation.fate} it ({expectation.because}), but it was answered{to}"
        elif expectation.fate is Fate.REJECTED and probe.outcome is Outcome.TIMED_OUT:
            yield f"{where} should have rejected it, but it was dropped"
        elif expectation.fate is Fate.DROPPED and probe.outcome is Outcome.REFUSED:
            yield f"{where} should have dropped it, but it was rejected"


def _was_lost_before(seen: Observation) -> bool:
    """Whether the connection did not come to the node's rules, so that nothing is known of them."""
    return bool(seen.watched) and not any(one.request for one in seen.journeys if one.node == seen.node)


def _choice_differences(seen: Observation, got: tuple[str, int]) -> Iterator[str]:
    choice = _choice(seen, got)
    if choice is None:
        possible = ", ".join(join_host_port(c.backend.address, c.backend.port) for c in seen.expectation.choices[:10])
        yield f"{seen.node} sent it to {seen.named(got)}, which is none of its backends: {possible}"
    elif seen.client and choice.client != seen.client:
        yield f"the backend should see {choice.client} as its client, but sees {seen.client}"


def _choice(seen: Observation, backend: tuple[str, int]) -> Choice | None:
    found = (c for c in seen.expectation.choices if (c.backend.address, c.backend.port) == backend)
    return next(found, None)


def verdict(seen: Observation) -> str:
    """Return the verdict line of a connection that was made, or should be made, to an address."""
    death = find_death(seen)
    if death is not None:
        return f"Dies at the step {death.step}: {death.because}"
    if seen.probe is None or seen.probe.outcome is Outcome.NOT_TRIED:
        return "Should work, but no connection was made"
    backend = seen.backend
    by = f" by {seen.named(backend)}" if backend is not None else ""
    if not by and _is_relayed(seen):
        count = len(seen.expectation.choices)
        by = f" by the proxy of {seen.node}{f' for one of {count} backends' if count else ''}"
    if seen.probe.outcome is Outcome.SENT:
        return f"Works: the datagram was taken{by}, which sent no answer" if by else "Works: the datagram was taken"
    client = f", which sees {seen.client} as its client" if backend is not None and seen.client else ""
    return f"Works: answered{by}{client}, after {seen.probe.milliseconds:g} ms"
