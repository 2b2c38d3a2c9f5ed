"""What a request asks for, read from its method, path and query alone (pure).

The rules are those of Kubernetes' `RequestInfoFactory`: the first path segments give group, version, namespace,
resource, name and subresource; the verb follows from the method and from whether an object is named. The authorizer,
the handlers and the metrics all work from this one value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

Query = Mapping[str, str]

_SIGNED, _UNSIGNED = re.compile(r"[+-]?[0-9]+"), re.compile(r"[0-9]+")

_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}

# Below /namespaces/NAME these are subresources of the namespace, not resources in it.
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """`is_resource` is False for paths such as /healthz or /apis, of which only `verb` and `path` are set.

    `verb` is get, list, watch, create, update, patch, delete or deletecollection; for other paths the method in
    lower case. `rest` is what follows the subresource. The selectors are those of a list or a watch, as they were sent.
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
        """What the rules of RBAC call it: `pods` or `pods/status`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def parse_query(raw: bytes) -> dict[str, str]:
    """The first value of each parameter, as Kubernetes reads them."""
    if not raw:
        return {}
    query: dict[str, str] = {}
    for name, value in parse_qsl(raw.decode("latin-1"), keep_blank_values=True):
        query.setdefault(name, value)
    return query


def is_true(query: Query, name: str) -> bool:
    """A boolean parameter: present and neither `false` nor `0`."""
    value = query.get(name)
    return value is not None and value.lower() not in ("false", "0")


def parse_int(text: str) -> int:
    """What Go's strconv.ParseInt takes for a number of 64 bits. Raises ValueError with its words."""
    return _parse_integer("ParseInt", _SIGNED, text, -(2**63), 2**63 - 1)


def parse_uint(text: str) -> int:
    """What Go's strconv.ParseUint takes for a number of 64 bits. Raises ValueError with its words."""
    return _parse_integer("ParseUint", _UNSIGNED, text, 0, 2**64 - 1)


def _parse_integer(function: str, syntax: re.Pattern[str], text: str, lowest: int, highest: int) -> int:
    words = f"strconv.{function}: parsing {json.dumps(text, ensure_ascii=False)}"
    if not syntax.fullmatch(text):
        raise ValueError(f"{words}: invalid syntax")
    # int() takes no more than some thousand digits.
    number = int(text) if len(text) < 1000 else highest + 1
    if not lowest <= number <= highest:
        raise ValueError(f"{words}: value out of range")
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
    if not name:
        if verb == "get":
            verb = "watch" if is_true(query, "watch") else "list"
            labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
            name = _named_by_selector(fields)
        elif verb == "delete":
            verb = "deletecollection"
    return RequestInfo(path, verb, True, group, version, namespace, resource, name, subresource, rest, labels, fields)


def _named_by_selector(field_selector: str) -> str:
    """`fieldSelector=metadata.name=x` is a list of one object: an authorizer may allow it by name."""
    for term in field_selector.split(","):
        key, equals, value = term.partition("=")
        if equals and key == "metadata.name":
            return value.removeprefix("=")
    return ""
