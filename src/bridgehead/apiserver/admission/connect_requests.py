"""Attributes and objects of connections, for plug-ins: of exec, attach, portforward and proxy (PodExecOptions etc.).

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/apis/core/types.go`, conversion of url.Values.
"""

from __future__ import annotations

from collections.abc import Iterable

from bridgehead.apiserver.http.request import Request
from bridgehead.apiserver.resource import JsonObject, Resource
from bridgehead.objects.integers import parse_integer

from .attributes import CONNECT, Attributes

_STREAMS = ("stdin", "stdout", "stderr", "tty")
_KINDS = {
    ("pods", "exec"): "PodExecOptions",
    ("pods", "attach"): "PodAttachOptions",
    ("pods", "portforward"): "PodPortForwardOptions",
    ("pods", "proxy"): "PodProxyOptions",
    ("services", "proxy"): "ServiceProxyOptions",
    ("nodes", "proxy"): "NodeProxyOptions",
}


def connect_attributes(request: Request, resource: Resource) -> Attributes:
    """Return the attributes of a connection. Raises KeyError for another subresource."""
    info = request.info
    return Attributes(
        CONNECT,
        resource,
        info.subresource,
        info.namespace,
        info.name,
        request.user,
        kind=("", "v1", _KINDS[resource.plural, info.subresource]),
        warnings=request.warnings,
        annotations=request.annotations,
    )


def connect_options(plural: str, subresource: str, query: Iterable[tuple[str, str]], path: str = "") -> JsonObject:
    """Return the options of a connection, from the query and, for a proxy, the path behind the subresource."""
    kind = _KINDS[plural, subresource]
    options: JsonObject = {"kind": kind, "apiVersion": "v1"}
    values: dict[str, list[str]] = {}
    for name, value in query:
        values.setdefault(name, []).append(value)
    match subresource:
        case "exec" | "attach":
            options |= {name: True for name in _STREAMS if _is_true(values.get(name, ("",))[0])}
            if values.get("container"):
                options["container"] = values["container"][0]
            if subresource == "exec":
                options["command"] = values.get("command", [])
        case "portforward":
            given = [one for value in values.get("ports", ()) for one in value.split(",") if one.isdecimal()]
            ports = [number for one in given if (number := parse_integer(one, bits=32)) is not None]
            if ports:
                options["ports"] = ports
        case "proxy" if path:
            options["path"] = path
    return options


def connect_query(options: JsonObject) -> list[tuple[str, str]]:
    """Return the query of exec or attach for these options, which admission may have changed."""
    query = [(name, "true") for name in _STREAMS if options.get(name) is True]
    if options.get("container"):
        query.append(("container", str(options["container"])))
    command = options.get("command")
    return query + [("command", str(one)) for one in (command if isinstance(command, list) else ())]


def _is_true(value: str) -> bool:
    return value.lower() in ("1", "t", "true")
