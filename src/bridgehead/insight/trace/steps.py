"""The numbered steps of a report, each with its evidence.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bridgehead.insight.rulesets.entries import Entry
from bridgehead.kubelet.node.resolv_conf import Resolver
from bridgehead.objects.addresses import join_host_port
from bridgehead.proxy.frontends import Frontend

from .expected_path import Expectation, Fate
from .name_resolution import NOERROR, UPSTREAM, DnsAnswer, ndots_of
from .observed_path import Journey, PacketPath, translations
from .probing import Outcome
from .report import PossibleBackend, State, Step
from .routes import RouteFound
from .verdict import Death, Observation, StepName

_MOST_BACKENDS = 20
_MOST_LINES = 40
_MOST_HOPS = 30
_PERCENT = 100


def name_step(
    name: str,
    resolver: Resolver,
    expected: Sequence[DnsAnswer],
    asked: Sequence[DnsAnswer],
    difference: str,
    why_not: str,
) -> Step:
    """`asked`: the real answers; () if `why_not` has the reason for which nobody was asked."""
    evidence = [
        f"resolv.conf: search {' '.join(resolver.searches) or '(none)'}; nameserver "
        f"{' '.join(resolver.nameservers) or '(none)'}; ndots:{ndots_of(resolver)}"
    ]
    evidence += [_answer_line(answer, expected) for answer in asked]
    if not asked:
        evidence += [f"not asked: {why_not}", *(f"should be {_answer_line(answer, ())}" for answer in expected)]
    last = next(reversed(asked or expected), None)
    if last is None or not last.addresses:
        if last is not None and last.rcode == UPSTREAM:
            text = f"{name} is no name that is known here, and no DNS could be asked"
            return Step(name=StepName.NAME, text=text, state=State.UNKNOWN, evidence=tuple(evidence))
        text = f"{name} has no address: {last.rcode if last is not None else 'no name to ask for'}"
        return Step(name=StepName.NAME, text=text, state=State.FAILED, evidence=tuple(evidence))
    if difference:
        evidence.append(difference)
    text = f"{name} is {', '.join(last.addresses[:8])}"
    if last.name != name.rstrip("."):
        text = f"{name} means {last.name}, which is {', '.join(last.addresses[:8])}"
    return Step(name=StepName.NAME, text=text, evidence=tuple(evidence))


def _answer_line(answer: DnsAnswer, expected: Sequence[DnsAnswer]) -> str:
    parts = [f"{answer.name}: {', '.join(answer.addresses) or answer.rcode}"]
    if answer.aliases:
        parts.append(f"by the alias {', '.join(answer.aliases)}")
    record = answer.record or next((one.record for one in expected if one.name == answer.name), "")
    if record and answer.rcode == NOERROR:
        parts.append(f"from {record}")
    if answer.server:
        took = f" after {answer.milliseconds:g} ms" if answer.milliseconds is not None else ""
        parts.append(f"answered by {answer.server}{took}")
    return "; ".join(parts)


def service_step(
    destination: tuple[str, int], protocol: str, frontend: Frontend | None, note: str, because: str
) -> Step:
    text = f"{join_host_port(*destination)}/{protocol}"
    evidence = (f"the destination is {note}",) if note else ()
    if frontend is None:
        return Step(name=StepName.SERVICE, text=f"{text}: {because}", evidence=evidence)
    text = f"{text} is the {frontend.published_as.value} of {frontend.owner.removesuffix(':')}"
    return Step(name=StepName.SERVICE, text=text, evidence=evidence)


def policy_step(reasons: Sequence[str], expectation: Expectation) -> Step:
    text = f"the connection should be {expectation.fate}: {expectation.because}"
    if expectation.fate is Fate.UNKNOWN:
        return Step(name=StepName.POLICY, text=expectation.because, state=State.UNKNOWN)
    return Step(name=StepName.POLICY, text=text, evidence=tuple(reasons))


def rules_step(
    node: str, mode: str, entries: Sequence[Entry], differences: Sequence[str], why_not: str, death: Death | None
) -> Step:
    state = State.FAILED if death is not None and death.step == StepName.RULES else State.OK
    if why_not:
        text = f"the rules of {node or 'the node'} could not be read: {why_not}"
        return Step(name=StepName.RULES, text=text, state=State.UNKNOWN if state is State.OK else state)
    lines = [line for entry in entries[:_MOST_LINES] for line in _entry_lines(entry)]
    if len(entries) > _MOST_LINES:
        lines.append(f"and {len(entries) - _MOST_LINES} more lines")
    text = f"the kernel of {node} has {len(entries)} lines for it in mode {mode}"
    return Step(name=StepName.RULES, text=text, state=state, evidence=(*lines, *differences))


def _entry_lines(entry: Entry) -> tuple[str, str]:
    counted = f" ({entry.packets} packets)" if entry.packets is not None else ""
    return f"{entry.container}: {entry.text}{counted}", f"  {entry.meaning}"


def possible_backends(expectation: Expectation, pods: Mapping[str, str]) -> tuple[PossibleBackend, ...]:
    return tuple(
        PossibleBackend(
            address=join_host_port(one.backend.address, one.backend.port),
            chance=round(one.chance, 4),
            client=one.client,
            pod=pods.get(one.backend.address, ""),
            node=one.backend.node,
        )
        for one in expectation.choices
    )


def backends_step(backends: Sequence[PossibleBackend], expectation: Expectation, is_userspace: bool) -> Step:
    if expectation.fate is Fate.UNKNOWN:
        return Step(name=StepName.BACKENDS, text=expectation.because, state=State.UNKNOWN)
    if not backends:
        fate = "the destination itself" if expectation.fate is Fate.UNTRANSLATED else "no backend"
        state = State.OK if expectation.fate is Fate.UNTRANSLATED else State.FAILED
        return Step(name=StepName.BACKENDS, text=f"{fate} takes it", state=state)
    count = len(backends)
    chance = f"{_PERCENT / count:.3g} %"
    text = f"1 of {count} backends takes it, each with a chance of {chance}" if count > 1 else "one backend takes it"
    lines = [
        f"{one.address}{f', pod {one.pod}' if one.pod else ''}{f' on {one.node}' if one.node else ''}: "
        f"sees {one.client} as its client, {_chance_text(one.chance)}"
        for one in backends[:_MOST_BACKENDS]
    ]
    if count > _MOST_BACKENDS:
        lines.append(f"and {count - _MOST_BACKENDS} more")
    if is_userspace:
        lines.append("the proxy takes the connection, and makes another one to the pod")
    return Step(name=StepName.BACKENDS, text=text, evidence=tuple(lines))


def _chance_text(chance: float) -> str:
    return f"{_PERCENT * chance:.3g} %"


def route_step(
    routes: Sequence[tuple[str, str, RouteFound | None]], unread: Sequence[str], death: Death | None
) -> Step:
    """`routes`: (place, address, route) of each part of the way."""
    state = State.FAILED if death is not None and death.step == StepName.ROUTE else State.OK
    lines = [_route_line(*one) for one in routes]
    missing = [f"{where} has no route to {address}" for where, address, found in routes if found is None]
    if missing:
        return Step(name=StepName.ROUTE, text="; ".join(missing), state=State.FAILED, evidence=tuple(lines))
    if not routes:
        text = f"routes could not be read: {'; '.join(unread) or 'nothing was entered'}"
        return Step(name=StepName.ROUTE, text=text, state=State.UNKNOWN if state is State.OK else state)
    return Step(name=StepName.ROUTE, text="; ".join(lines), state=state, evidence=tuple(unread))


def _route_line(where: str, address: str, found: RouteFound | None) -> str:
    if found is None:
        return f"{where}: no route to {address}"
    gateway = "" if found.is_on_link else " through a gateway"
    return f"{where} sends to {address} on {found.interface}{gateway}, from {found.source}"


def pod_step(seen: Observation, death: Death | None) -> Step:
    state = State.FAILED if death is not None and death.step == StepName.POD else State.OK
    lines = [
        f"{address}: {'a process listens' if listens else 'no process listens'}"
        for address, listens in sorted(seen.listens.items())
    ]
    if not lines:
        text = "not known whether a process listens: no pod could be looked at"
        return Step(name=StepName.POD, text=text, state=State.UNKNOWN if state is State.OK else state)
    deaf = [address for address, listens in seen.listens.items() if not listens]
    if deaf:
        text = f"no process listens on {seen.protocol} at {', '.join(sorted(deaf)[:8])}"
        return Step(name=StepName.POD, text=text, state=State.FAILED, evidence=tuple(lines))
    return Step(name=StepName.POD, text="a process listens on the port", state=state, evidence=tuple(lines))


def connection_step(
    seen: Observation,
    why_not: str,
    interfaces: Mapping[str, Mapping[int, str]],
    unread: Sequence[str],
    works: bool | None,
) -> Step:
    probe = seen.probe
    if probe is None or probe.outcome is Outcome.NOT_TRIED:
        text = f"no connection was made: {why_not or (probe.why if probe is not None else '')}"
        return Step(name=StepName.CONNECTION, text=text, state=State.UNKNOWN)
    source = f" from {join_host_port(*probe.source)}" if probe.source[0] else ""
    reason = f" ({probe.why})" if probe.why else ""
    verb = "" if probe.outcome is Outcome.TIMED_OUT else "was "
    text = f"a connection{source} {verb}{probe.outcome}{reason} after {probe.milliseconds:g} ms"
    if probe.outcome is Outcome.SENT:
        text = f"a datagram{source} was sent{reason}"
    lines: list[str] = []
    for journey in seen.journeys:
        lines += _journey_lines(journey, interfaces.get(journey.node, {}))
    if seen.tracked is not None:
        answered = "answered" if seen.tracked.has_reply else "without a reply"
        to, client = join_host_port(*seen.tracked.reply_source), seen.tracked.reply_destination
        line = f"connection tracking of {seen.node}: to {to}, whose replies go to {join_host_port(*client)}; {answered}"
        lines.append(line if client[0] else f"IPVS of {seen.node}, without connection tracking: to {to}; {answered}")
    return Step(
        name=StepName.CONNECTION,
        text=text,
        state=State.OK if works else State.FAILED,
        evidence=(*lines, *unread),
    )


def _journey_lines(journey: Journey, interfaces: Mapping[int, str]) -> Iterator[str]:
    replies = [packet for packet in journey.packets if packet.is_reply]
    shown = [packet for packet in (journey.request, *replies[:1], journey.ended) if packet is not None]
    for packet in dict.fromkeys(shown):
        yield _packet_line(journey.node, packet, interfaces)
        for hop in packet.hops[:_MOST_HOPS]:
            yield f"    {hop.chain}: {hop.rule or '(a rule that is gone)'} => {hop.verdict}"


def _packet_line(node: str, packet: PacketPath, interfaces: Mapping[int, str]) -> str:
    first = packet.first
    parts = [
        f"{node}: {'reply' if packet.is_reply else 'packet'} {join_host_port(first.source, first.source_port)} -> "
        f"{join_host_port(first.destination, first.destination_port)}"
    ]
    for text, index in zip(("in by", "out by"), packet.interfaces, strict=True):
        if index:
            parts.append(f"{text} {interfaces.get(index, index)}")
    parts += translations(packet)
    if packet.end is not None:
        parts.append(f"{packet.end.verdict} by {packet.end.chain}")
    return ", ".join(parts)
