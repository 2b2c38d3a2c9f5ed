"""/statusz and /flagz: what this server is, and the options with which it was started.

People get a text, programs that ask for it an object (`Accept: application/json;g=config.k8s.io;v=v1beta1;as=Statusz`).
Pure: no I/O, no clock, no randomness. Source: Kubernetes "Kubernetes z-pages", KEP-4827, KEP-4828.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from bridgehead import KUBERNETES_VERSION
from bridgehead.apiserver.bodies.collection import dump_yaml
from bridgehead.apiserver.errors import not_acceptable
from bridgehead.apiserver.http.negotiation import JSON, YAML, parse_accept
from bridgehead.apiserver.http.request import Response, text_response
from bridgehead.apiserver.resource import JsonObject
from bridgehead.objects.times import format_time

STATUSZ, FLAGZ = "/statusz", "/flagz"

_COMPONENT = "kube-apiserver"
_GROUP, _VERSIONS = "config.k8s.io", ("v1beta1", "v1alpha1")
_WARNING = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees "
    "and is for debugging purposes only."
)
_BINARY_VERSION = KUBERNETES_VERSION.removeprefix("v")
_EMULATION_VERSION = _BINARY_VERSION.rpartition(".")[0]


class ZPages:
    """The two pages. `flags` are options by name; `paths` are those of other pages for operators."""

    def __init__(self, flags: Mapping[str, str], paths: Sequence[str], clock: Callable[[], float]) -> None:
        self._flags = dict(sorted(flags.items()))
        self._paths = sorted({*paths, STATUSZ, FLAGZ})
        self._clock = clock
        self._started = clock()

    def serves(self, path: str) -> bool:
        return path in (STATUSZ, FLAGZ)

    def handle(self, path: str, accept: str) -> Response:
        """Answer a GET. Raises a 406."""
        kind, content = ("Statusz", self._status) if path == STATUSZ else ("Flagz", self._options)
        media, version = _choose(accept, kind)
        if not version:
            return text_response(200, self._text(path))
        head = {"kind": kind, "apiVersion": f"{_GROUP}/{version}", "metadata": {"name": _COMPONENT}}
        value = {**head, **content()}
        return Response(200, dump_yaml(value) if media == YAML else msgspec.json.encode(value), media)

    def _uptime_seconds(self) -> int:
        return int(self._clock() - self._started)

    def _status(self) -> JsonObject:
        return {
            "startTime": format_time(self._started),
            "uptimeSeconds": self._uptime_seconds(),
            "binaryVersion": _BINARY_VERSION,
            "emulationVersion": _EMULATION_VERSION,
            "paths": self._paths,
        }

    def _options(self) -> JsonObject:
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
        return "\n".join(["", f"{_COMPONENT} {path[1:]}", _WARNING, "", *lines, ""])


def _choose(accept: str, kind: str) -> tuple[str, str]:
    """Return the media type and the version of the object, "" for the text. Raises a 406."""
    for accepted in parse_accept(accept) if accept else ():
        if accepted.type in ("*/*", "text/*", "text/plain") and not accepted.form:
            return "text/plain", ""
        is_kind = (accepted.group, accepted.form) == (_GROUP, kind) and accepted.version in _VERSIONS
        if is_kind and accepted.type in (JSON, YAML):
            return accepted.type, accepted.version
    if not accept:
        return "text/plain", ""
    forms = [f"{media};g={_GROUP};v={version};as={kind}" for media in (JSON, YAML) for version in _VERSIONS]
    raise not_acceptable(["text/plain", *forms])
