"""Parsing of a request's method, path and query into a `RequestInfo`.

The rules are those of Kubernetes' `RequestInfoFactory`: the path segments give group, version, namespace, resource,
name and subresource; the verb follows from the method and from whether an object is named. The authorizer, the handlers
and the metrics use the same `RequestInfo`. Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from urllib.parse import parse_qsl

import msgspec

from bridgehead.apiserver.errors import bad_request

Query = Mapping[str, str]
QueryList = list[tuple[str, str]]

# Durations that Go's time.ParseDuration accepts.
_DURATION = re.compile(r"[+-]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)")
_SIGNED, _UNSIGNED = re.compile(r"[+-]?[0-9]+"), re.compile(r"[0-9]+")

_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}

# These are subresources of the namespace below /namespaces/NAME, not resources in it.
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})


class RequestInfo(msgspec.Struct):  # nobody changes its fields; a frozen dataclass takes 4 µs to make
    """A parsed request. `is_resource` is False for paths such as /healthz or /apis, which only set `verb` and `path`.

    `verb` is get, list, watch, create, update, patch, delete or deletecollection; for other paths the method in
    lower case. `rest` is the path after the subresource. The selectors are those of a list, a watch or a deletion of
    many objects, unparsed.
    """

    path: str
    verb: str
    is_resource: bool = False
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    name: str = ""
    subresource: str = ""
    rest: str = ""
    label_selector: str = ""
    field_selector: str = ""

    @property
    def rule_resource(self) -> str:
        """The resource's name in RBAC rules: `pods` or `pods/status`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def parse_query(raw: bytes) -> dict[str, str]:
    """Return the first value of each parameter, as Kubernetes does."""
    if not raw:
        return {}
    query: dict[str, str] = {}
    for name, value in parse_qsl(raw.decode("latin-1"), keep_blank_values=True):
        query.setdefault(name, value)
    return query


def parse_query_list(query_string: bytes) -> QueryList:
    """Parse a query; keep repeated names (`command`)."""
    return parse_qsl(query_string.decode("latin-1"), keep_blank_values=True)


def is_true(query: Query, name: str) -> bool:
    """Whether a boolean parameter is set: present and neither `false` nor `0`."""
    value = query.get(name)
    return value is not None and value.lower() not in ("false", "0")


def check_timeout(query: Query) -> None:
    """Raise a 400 for a `timeout` that is not a duration. Kubernetes' own limit, 60 s, is that of reading a body."""
    timeout = query.get("timeout")
    if timeout and not _DURATION.fullmatch(timeout):
        raise bad_request("invalid timeout specified in the request URL")


def parse_int(text: str) -> int:
    """Parse a 64-bit integer as Go's strconv.ParseInt does. Raises ValueError with ParseInt's text."""
    return _parse_integer("ParseInt", _SIGNED, text, -(2**63), 2**63 - 1)


def parse_uint(text: str) -> int:
    """Parse a 64-bit unsigned integer as Go's strconv.ParseUint does. Raises ValueError with ParseUint's text."""
    return _parse_integer("ParseUint", _UNSIGNED, text, 0, 2**64 - 1)


def _parse_integer(function: str, syntax: re.Pattern[str], text: str, lowest: int, highest: int) -> int:
    prefix = f"strconv.{function}: parsing {json.dumps(text, ensure_ascii=False)}"
    if not syntax.fullmatch(text):
        raise ValueError(f"{prefix}: invalid syntax")
    # int() refuses more than 4300 digits.
    number = int(text) if len(text) < 1000 else highest + 1
    if not lowest <= number <= highest:
        raise ValueError(f"{prefix}: value out of range")
    return number


def parse_request(method: str, path: str, query: Query) -> RequestInfo:
    parts = [part for part in path.split("/") if part]
    if len(parts) < 3 or parts[0] not in ("api", "apis"):
        return RequestInfo(path, method.lower())
    if parts[0] == "api":
        group, version, parts = "", parts[1], parts[2:]
    elif len(parts) < 4:
        return RequestInfo(path, method.lower())
    else:
        group, version, parts = parts[1], parts[2], parts[3:]
    verb = _VERBS.get(method, method.lower())
    is_watched = parts[0] == "watch" and len(parts) > 1
    if is_watched:  # the older form of `?watch=true`
        verb, parts = "watch", parts[1:]
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in _NAMESPACE_SUBRESOURCES:
            parts = parts[2:]
    resource = parts[0]
    name = parts[1] if len(parts) > 1 else ""
    subresource = parts[2] if len(parts) > 2 else ""
    rest = "/".join(parts[3:])
    labels = fields = ""
    if is_watched:
        labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
    elif not name:
        if verb == "get":
            verb = "watch" if is_true(query, "watch") else "list"
            name = named_by_selector(query.get("fieldSelector", ""))
        elif verb == "delete":
            verb = "deletecollection"
        if verb in ("list", "watch", "deletecollection"):
            labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
    return RequestInfo(path, verb, True, group, version, namespace, resource, name, subresource, rest, labels, fields)


def named_by_selector(field_selector: str) -> str:
    """Return the name in `fieldSelector=metadata.name=x`, or "": an authorizer may allow such a list by name."""
    for term in field_selector.split(","):
        key, equals, value = term.partition("=")
        if equals and key == "metadata.name":
            return value.removeprefix("=")
    return ""
