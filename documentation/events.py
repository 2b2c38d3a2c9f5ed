"""docs/reference/events.md: reasons of Events that the parts record.

They are found in the source: at calls of `record` with a constant `reason`, of functions that pass their parameter
`reason` to it, and wherever a reason follows the type of an Event.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from bridgehead.proxy.frontends import Reason

from .source import Module, constants_of, modules, text_of
from .tables import code, escaped, made_by, table

_TYPES = ("Normal", "Warning")
_REASON = re.compile(r"[A-Za-z][a-z]+(?:[A-Z][A-Za-z]*)*|[A-Z]{3,}[A-Za-z]+")
# Parts that record Events. In other parts, classes of these names have other uses.
_PARTS = ("balancer", "controllers", "kubelet", "proxy")
# Classes of values that become Events, and where their reason and their message stand.
_CARRIERS: Mapping[str, tuple[int, int, str]] = {
    "Note": (0, 1, "Normal"),
    "Trouble": (0, 1, "Warning"),
    "Rejection": (2, 1, "Warning"),
}
# Reasons that the code composes, or chooses from a variable, by the module that does.
_STATEFUL = "controllers/stateful/pods_and_claims.py"
_VERDICTS = "controllers/jobs/job_verdicts.py"
COMPOSED: Mapping[tuple[str, str], tuple[str, str]] = {
    ("SuccessfulDelete", _STATEFUL): ("Normal", "delete Pod {name} in StatefulSet {name} successful"),
    ("FailedDelete", _STATEFUL): ("Warning", "delete Pod {name} in StatefulSet {name} failed error: {error}"),
    ("InvalidConfiguration", "balancer/configuration/inputs.py"): ("Warning", ""),
    ("BackoffLimitExceeded", _VERDICTS): ("Warning", "Job has reached the specified backoff limit"),
    ("DeadlineExceeded", _VERDICTS): ("Warning", "Job was active longer than specified deadline"),
    ("FailedIndexes", _VERDICTS): ("Warning", "Job has failed indexes"),
    ("MaxFailedIndexesExceeded", _VERDICTS): (
        "Warning",
        "Job has exceeded the specified maximal number of failed indexes",
    ),
    ("PodFailurePolicy", _VERDICTS): ("Warning", ""),
    ("OutOf{resource}", "kubelet/pods/node_fit.py"): ("Warning", "Node didn't have enough resource: {what}"),
    ("NodeAffinity", "kubelet/pods/node_fit.py"): ("Warning", "Predicate NodeAffinity failed: {why}"),
    ("OutOfUserNamespaces", "kubelet/pods/pod_admission.py"): (
        "Warning",
        "All ranges of users for pods with hostUsers: false are in use on this node",
    ),
    ("UnexpectedAdmissionError", "kubelet/pods/pod_admission.py"): ("Warning", ""),
}

# A module without one of these records no Event.
_MARKS = re.compile(r"\brecord\b|_record|Normal|Warning|" + "|".join((*_CARRIERS, "Problem")))

_INTRODUCTION = """\
`kubectl describe` and `kubectl events` show them. Where Kubernetes has an Event, its reason and its message are
Kubernetes' own; the reasons of proxy and balancer that Kubernetes does not have are theirs.
`{...}` stands for what differs from one Event to another. A message that the code takes from elsewhere is left out.

"""


class Event(NamedTuple):
    """One kind of Event: where it is recorded, and its message if the code has it there."""

    reason: str
    type: str
    message: str
    module: str


def found() -> list[Event]:
    """Return the Events of all parts."""
    events = {Event(reason, kind, message, path) for (reason, path), (kind, message) in COMPOSED.items()}
    events |= {Event(member.value, "Warning", "", "proxy/frontends.py") for member in Reason}
    for module in modules():
        if module.path.startswith(_PARTS) and _MARKS.search(module.text):
            events.update(_events_of(module))
    return sorted(events)


def _events_of(module: Module) -> Iterator[Event]:
    constants = constants_of(module.tree)
    sinks = _sinks(module.tree)
    functions = [node for node in ast.walk(module.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for function in functions:
        yield from _assigned(function, module.path, constants)
        texts = _local_texts(function, constants)
        for node in ast.walk(function):
            if isinstance(node, ast.Call):
                before = {name: text for line, name, text in texts if line <= node.lineno}
                for kind, reason, message in _of_call(node, constants, before, sinks):
                    if reason and _REASON.fullmatch(reason):
                        yield Event(reason, kind, message or "", module.path)


def _local_texts(function: ast.AST, constants: Mapping[str, str]) -> list[tuple[int, str, str]]:
    """Return the texts that a function has names for: the line, the name, the text; in the order of lines."""
    texts = []
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            text = text_of(node.value, constants)
            if text is not None:
                texts.append((node.lineno, node.targets[0].id, text))
    return sorted(texts)


def _of_call(
    call: ast.Call, constants: Mapping[str, str], local: Mapping[str, str], sinks: Mapping[str, tuple[int, str]]
) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield the kind, the reason and the message of what a call records."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    named = {keyword.arg: keyword.value for keyword in call.keywords}
    known = {**constants, **local}
    texts = [text_of(argument, known) for argument in call.args]
    reasons = [text_of(argument, constants) for argument in call.args]
    if "reason" in named and (name == "record" or name in _CARRIERS):
        kind = text_of(named.get("type"), constants) or ("Normal" if name == "record" else _CARRIERS[name][2])
        yield kind, text_of(named["reason"], constants), text_of(named.get("message"), known)
        return
    if name == "Problem" and len(call.args) == 2 and isinstance(call.args[0], ast.Attribute):
        yield "Warning", Reason[call.args[0].attr].value, texts[1]
        return
    for index, text in enumerate(texts[:-1]):
        if text in _TYPES:  # a reason, and the message if it follows
            yield str(text), reasons[index + 1], texts[index + 2] if index + 2 < len(texts) else None
            return
    if name in _CARRIERS:
        at, message, kind = _CARRIERS[name]
        if at < len(texts):
            kind = kind if len(texts) < 3 or texts[-1] not in _TYPES else str(texts[-1])
            yield kind, reasons[at], texts[message] if message < len(texts) else None
    elif name in sinks:
        at, kind = sinks[name]
        if at < len(texts):
            kind = next((text for text in texts if text in _TYPES), None) or kind
            yield kind, reasons[at], texts[at + 1] if at + 1 < len(texts) else None


def _sinks(tree: ast.Module) -> dict[str, tuple[int, str]]:
    """Return the functions that record an Event with their parameter `reason`: its position, and the Event's type.

    `record` is that of the kubelet's node, which other modules call, also by the name `_record`.
    """
    sinks = {"record": (0, "Normal"), "_record": (0, "Normal")}
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        names = [argument.arg for argument in node.args.args if argument.arg != "self"]
        if "reason" not in names:
            continue
        for call in ast.walk(node):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "record":
                given = [*call.args, *(keyword.value for keyword in call.keywords)]
                if any(isinstance(each, ast.Name) and each.id == "reason" for each in given):
                    types = [text_of(keyword.value) for keyword in call.keywords if keyword.arg == "type"]
                    sinks[node.name] = names.index("reason"), next(filter(None, types), "Normal")
    return sinks


def _assigned(
    function: ast.FunctionDef | ast.AsyncFunctionDef, path: str, constants: Mapping[str, str]
) -> Iterator[Event]:
    """Yield the Events whose reason is a variable of the function that records them."""
    records = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "record"
    ]
    keywords = [{keyword.arg: keyword.value for keyword in record.keywords} for record in records]
    if not any(isinstance(each.get("reason"), ast.Name) for each in keywords):
        return
    kind = next((text for each in keywords if (text := text_of(each.get("type"), constants))), "Normal")
    for node in ast.walk(function):
        match node:
            case ast.Assign(
                targets=[ast.Tuple(elts=[ast.Name(id="reason"), *_])], value=ast.Tuple(elts=[value, *rest])
            ):
                message = text_of(rest[0], constants) if rest else None
            case ast.Assign(targets=[ast.Name(id="reason")], value=value):
                message = None
            case _:
                continue
        values = (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,)
        for each in values:
            reason = text_of(each, constants)
            if reason and _REASON.fullmatch(reason):
                yield Event(reason, kind, message or "", path)


def render_page() -> str:
    """Return the page."""
    parts = ["# Reasons of Events\n\n", made_by("events"), _INTRODUCTION]
    part_of = {module.path: module.part for module in modules()}
    by_part: dict[str, dict[str, list[Event]]] = {}
    for event in found():
        by_part.setdefault(part_of[event.module], {}).setdefault(event.reason, []).append(event)
    for part, reasons in sorted(by_part.items()):
        rows = (
            (
                code(reason),
                ", ".join(sorted({event.type for event in events if event.type})),
                " / ".join(dict.fromkeys(escaped(event.message) for event in events if event.message)),
            )
            for reason, events in reasons.items()
        )
        parts += [f"## {part}\n\n", table(("reason", "type", "message"), rows), "\n"]
    return "".join(parts).rstrip("\n") + "\n"
