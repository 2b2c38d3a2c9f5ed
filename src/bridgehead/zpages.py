"""/statusz and /flagz: what a component is, and the options with which it was started.

People get a text, programs that ask for it an object (`Accept: application/json;g=config.k8s.io;v=v1beta1;as=Statusz`).
The API server, the kubelet and the proxy serve the pages.
Pure: no I/O, no clock, no randomness. Source: Kubernetes "Kubernetes z-pages", KEP-4827, KEP-4828.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from bridgehead import KUBERNETES_VERSION
from bridgehead.media_types import JSON, YAML, parse_accept
from bridgehead.objects.times import format_time
from bridgehead.yaml_dumper import dump_yaml

STATUSZ, FLAGZ = "/statusz", "/flagz"

_TEXT = "text/plain; charset=utf-8"
_GROUP, _VERSIONS = "config.k8s.io", ("v1beta1", "v1alpha1")
_WARNING = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees "
    "and is for debugging purposes only."
)
_BINARY_VERSION = KUBERNETES_VERSION.removeprefix("v")
_EMULATION_VERSION = _BINARY_VERSION.rpartition(".")[0]


class Answer(NamedTuple):
    """A page in one of its forms."""

    body: bytes
    content_type: str


class ZPages:
    """The two pages of a component. `flags` are options by name; `paths` are those of other pages for operators."""

    def __init__(
        self, component: str, flags: Mapping[str, str], paths: Sequence[str], clock: Callable[[], float]
    ) -> None:
        self._component = component
        self._flags = dict(sorted(flags.items()))
        self._paths = sorted({*paths, STATUSZ, FLAGZ})
        self._clock = clock
        self._started = clock()

    def answer(self, path: str, accept: str) -> Answer | None:
        """Return the page in the form that the client prefers; None if it accepts none of `offered_forms`."""
        kind, content = ("Statusz", self._status) if path == STATUSZ else ("Flagz", self._options)
        chosen = _choose(accept, kind)
        if chosen is None:
            return None
        media, version = chosen
        if not version:
            return Answer(self._text(path).encode(), _TEXT)
        head = {"kind": kind, "apiVersion": f"{_GROUP}/{version}", "metadata": {"name": self._component}}
        value = {**head, **content()}
        return Answer(dump_yaml(value) if media == YAML else msgspec.json.encode(value), media)

    def _uptime_seconds(self) -> int:
        return int(self._clock() - self._started)

    def _status(self) -> dict[str, Any]:
        return {
            "startTime": format_time(self._started),
            "uptimeSeconds": self._uptime_seconds(),
            "binaryVersion": _BINARY_VERSION,
            "emulationVersion": _EMULATION_VERSION,
            "paths": self._paths,
        }

    def _options(self) -> dict[str, Any]:
        return {"flags": self._flags}

    def _text(self, path: str) -> str:
        if path == FLAGZ:
            lines = [f"{name}={value}" for name, value in self._flags.items()]
        else:
            minutes, seconds = divmod(self._uptime_seconds(), 60)
            started = datetime.fromtimestamp(self._started, UTC).strftime("%a %b %e %H:%M:%S UTC %Y")
            lines = [
                f"Started: {started}",
                f"Up: {minutes // 60} hr {minutes % 60:02} min {seconds:02} sec",
                f"Binary version: {_BINARY_VERSION}",
                f"Emulation version: {_EMULATION_VERSION}",
                f"Paths: {' '.join(self._paths)}",
            ]
        return "\n".join(["", f"{self._component} {path[1:]}", _WARNING, "", *lines, ""])


def offered_forms(path: str) -> list[str]:
    """Return the media types in which a page is offered."""
    kind = "Statusz" if path == STATUSZ else "Flagz"
    return [
        "text/plain",
        *(f"{media};g={_GROUP};v={version};as={kind}" for media in (JSON, YAML) for version in _VERSIONS),
    ]


def _choose(accept: str, kind: str) -> tuple[str, str] | None:
    """Return the media type and the version of the object, "" for the text."""
    if not accept:
        return _TEXT, ""
    for accepted in parse_accept(accept):
        if accepted.type in ("*/*", "text/*", "text/plain") and not accepted.form:
            return _TEXT, ""
        is_kind = (accepted.group, accepted.form) == (_GROUP, kind) and accepted.version in _VERSIONS
        if is_kind and accepted.type in (JSON, YAML):
            return accepted.type, accepted.version
    return None
