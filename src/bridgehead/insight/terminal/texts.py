"""Objects of the API as text: described as kubectl does for kinds without a describer of their own, and as YAML.

Every line is safe for a terminal.

Pure: no I/O, no clock, no randomness. Times are arguments, in epoch seconds.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Mapping
from typing import Any

from bridgehead.insight.findings import printable
from bridgehead.insight.live.rows import EventRow
from bridgehead.insight.speakers import age
from bridgehead.yaml_dumper import dump_yaml

MOST_LINES = 20_000
_LONGEST_LINE = 2000
_LONGEST_BEGUN = 4 * _LONGEST_LINE  # more than is shown, since colours are dropped
_MOST_EVENTS = 20
_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
_MANAGED_FIELDS = "managedFields"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

# Parts of names in camelCase; abbreviations stay together: clusterIP -> Cluster IP.
_PART = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+|[A-Z]")


def safe_lines(text: str, most: int = MOST_LINES) -> list[str]:
    """Return the lines of a text without control characters, at most `most`; then the last one reports that."""
    lines = text.split("\n", most + 1)
    if lines and not lines[-1]:
        lines.pop()
    found = [safe_line(line) for line in lines[:most]]
    if len(lines) > most:
        found[-1] = f"... only the first {most} lines are shown"
    return found


def safe_line(line: str) -> str:
    """Return one line without control characters; tabs become spaces, and the colours of a program are dropped."""
    if "\x1b" in line:
        line = _COLOUR.sub("", line)
    return printable(line.rstrip("\r").expandtabs(8), _LONGEST_LINE)


_COLOUR = re.compile(r"\x1b\[[0-9;]{0,20}m")


class LineSplitter:
    """The lines of a text that arrives in pieces, which may end within a character. A line without an end is cut."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._begun = ""

    def feed(self, piece: bytes) -> list[str]:
        """Return the lines that the piece completes."""
        *whole, begun = (self._begun + self._decoder.decode(piece)).split("\n")
        self._begun = begun[:_LONGEST_BEGUN]
        return [safe_line(line) for line in whole]

    def end(self) -> list[str]:
        """Return the last line, if it has no end."""
        rest = self._begun + self._decoder.decode(b"", final=True)
        return [safe_line(rest)] if rest else []


def container_names(pod: Mapping[str, Any]) -> list[str]:
    """Return the names of a pod's containers: the default one first, init containers last."""
    spec, metadata = pod.get("spec"), pod.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    default = annotations.get(_DEFAULT_CONTAINER) if isinstance(annotations, Mapping) else None
    names = [
        str(each.get("name", ""))
        for kind in ("containers", "initContainers")
        for each in (spec.get(kind) if isinstance(spec, Mapping) else None) or ()
        if isinstance(each, Mapping)
    ]
    return sorted(names, key=lambda name: name != default)


def yaml_lines(obj: Mapping[str, Any]) -> list[str]:
    """Return an object as YAML, as `kubectl get -o yaml` prints it."""
    return safe_lines(dump_yaml(_without_managed_fields(obj)).decode())


def describe_lines(obj: Mapping[str, Any], events: Iterable[EventRow], now: float) -> list[str]:
    """Return an object as `kubectl describe` prints kinds that it has no describer for, with its Events."""
    obj = _without_managed_fields(obj)
    metadata = obj.get("metadata")
    metadata = dict(metadata) if isinstance(metadata, Mapping) else {}
    lines = [_line("Name", metadata.pop("name", "")), _line("Namespace", metadata.pop("namespace", ""))]
    annotations = metadata.pop("annotations", None)
    if isinstance(annotations, Mapping):
        annotations = {key: value for key, value in annotations.items() if key != _LAST_APPLIED}
    lines += _map_lines("Labels", metadata.pop("labels", None)) + _map_lines("Annotations", annotations)
    for key in ("apiVersion", "kind"):
        lines.append(_line(title(key), obj.get(key, "")))
    rest: dict[str, Any] = {"metadata": metadata}
    rest |= {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata")}
    _append(lines, rest, 0)
    lines += event_lines(events, now)
    return safe_lines("\n".join(line.replace("\n", " ") for line in lines))


def title(key: str) -> str:
    """Return a field's name as a title: `clusterIP` -> `Cluster IP`."""
    if not key.isalnum():  # a label or an annotation
        return key
    return " ".join(part[:1].upper() + part[1:] for part in _PART.findall(key)) or key


def _line(name: str, value: object) -> str:
    return f"{name + ':':<14}{value}"


def _map_lines(name: str, values: object) -> list[str]:
    if not isinstance(values, Mapping) or not values:
        return [_line(name, "<none>")]
    pairs = [f"{key}={value}" if name == "Labels" else f"{key}: {value}" for key, value in sorted(values.items())]
    return [_line(name, pairs[0]), *(" " * 14 + pair for pair in pairs[1:])]


def _append(lines: list[str], value: Any, depth: int) -> None:
    """Append the lines of a map or list, indented by two spaces for each level."""
    indent = "  " * depth
    if depth > 30 or len(lines) > MOST_LINES:
        lines.append(f"{indent}...")
    elif isinstance(value, Mapping):
        for key, item in sorted(value.items()):
            name = title(str(key))
            if isinstance(item, Mapping | list):
                if item:
                    lines.append(f"{indent}{name}:")
                    _append(lines, item, depth + 1)
            else:
                lines.append(f"{indent}{name}:  {_scalar(item)}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, Mapping | list):
                if index:
                    lines.append("")
                _append(lines, item, depth)
            else:
                lines.append(f"{indent}{_scalar(item)}")


def _scalar(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "<nil>" if value is None else str(value)


def event_lines(events: Iterable[EventRow], now: float) -> list[str]:
    """Return the Events of one object, the latest ones, as `kubectl describe` ends."""
    found = sorted(events, key=lambda event: event.last)[-_MOST_EVENTS:]
    if not found:
        return ["Events:  <none>"]
    rows = [("Type", "Reason", "Age", "From", "Message")]
    rows += [(each.type, each.reason, _event_age(each, now), each.source, each.message) for each in found]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = ["Events:"]
    for row in rows:
        cells = (text.ljust(width) for text, width in zip(row, widths, strict=False))
        lines.append(f"  {'  '.join(cells)}  {row[4]}")
    return lines


def _event_age(event: EventRow, now: float) -> str:
    text = age(now - event.last)
    return f"{text} (x{event.count})" if event.count > 1 else text


def _without_managed_fields(obj: Mapping[str, Any]) -> dict[str, Any]:
    metadata = obj.get("metadata")
    if not isinstance(metadata, Mapping):
        return dict(obj)
    kept = {key: value for key, value in metadata.items() if key != _MANAGED_FIELDS}
    return {**obj, "metadata": kept}
