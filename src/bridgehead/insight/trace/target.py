"""Targets and origins of a trace, as the user writes them.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import enum
import ipaddress
import re

import msgspec

from bridgehead.dns.messages import domain_names
from bridgehead.insight.findings import printable

_SCHEMES = {"http": "80", "https": "443"}
_LONGEST_PORT_NAME = 63
_CHARACTERS = re.compile(r"[A-Za-z0-9_.-]+").fullmatch


class BadTarget(Exception):
    """A target or origin that cannot be understood. The text is one line."""


class TargetKind(enum.StrEnum):
    NAME = "name"  # a program's: DNS resolves it
    ADDRESS = "address"
    SERVICE = "service"
    POD = "pod"


class Target(msgspec.Struct, frozen=True):
    """`name`: a DNS name, a canonical address, or the name of a Service or pod. `namespace`: of these two; "": not
    given. `port`: a number or a port's name; "": not given.
    """

    kind: TargetKind
    name: str
    namespace: str = ""
    port: str = ""


class OriginKind(enum.StrEnum):
    POD = "pod"
    NODE = "node"
    OUTSIDE = "outside"


class Origin(msgspec.Struct, frozen=True):
    """`name` and `namespace`: of the pod or node."""

    kind: OriginKind
    name: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        path = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind}/{path}" if self.name else str(self.kind)


def parse_target(text: str) -> Target:
    """Parse `web`, `web.prod:80`, `http://web/path`, `10.96.0.1:80`, `[fd00::1]:80`, `service/web:http`, `pod/web-1`.

    A Service or pod may have its namespace before its name: `service/prod/web`. Raises BadTarget.
    """
    shown = printable(text, 80)
    scheme, found, rest = text.partition("://")
    default = ""
    if found:
        if scheme.lower() not in _SCHEMES:
            raise BadTarget(f"{shown}: only http and https are known as schemes; write NAME:PORT")
        text, default = rest.partition("/")[0], _SCHEMES[scheme.lower()]
    kind, slash, path = text.partition("/")
    if slash:
        kinds = {"service": TargetKind.SERVICE, "svc": TargetKind.SERVICE, "services": TargetKind.SERVICE}
        kinds |= {"pod": TargetKind.POD, "po": TargetKind.POD, "pods": TargetKind.POD}
        if kind.lower() not in kinds:
            raise BadTarget(f"{shown}: not a name, an address, service/NAME or pod/NAME, with or without :PORT")
        path, _, port = path.partition(":")
        namespace, name = _namespaced(path, shown)
        return Target(kinds[kind.lower()], name, namespace, _port(port, shown))
    host, port = _split(text, shown)
    address = _address(host)
    if address is not None:
        return Target(TargetKind.ADDRESS, address, port=_port(port or default, shown))
    if not host or not is_name(host.removesuffix(".").lower()):
        raise BadTarget(f"{shown}: neither a name nor an address")
    return Target(TargetKind.NAME, host.lower(), port=_port(port or default, shown))


def parse_origin(text: str) -> Origin:
    """Parse `pod/NAME`, `pod/NAMESPACE/NAME`, `node/NAME` or `outside`. Raises BadTarget."""
    shown = printable(text, 80)
    kind, _, path = text.partition("/")
    kind = kind.lower()
    if text == OriginKind.OUTSIDE:
        return Origin(OriginKind.OUTSIDE)
    if kind in ("pod", "po", "pods") and path:
        namespace, name = _namespaced(path, shown)
        return Origin(OriginKind.POD, name, namespace)
    if kind in ("node", "no", "nodes") and path and is_name(path):
        return Origin(OriginKind.NODE, path)
    raise BadTarget(f"{shown}: a connection comes from pod/NAME, from node/NAME or from outside")


def is_name(text: str) -> bool:
    """Whether the text is a domain name of the characters that hosts and objects have."""
    return _CHARACTERS(text) is not None and domain_names.is_name(text)


def _namespaced(path: str, shown: str) -> tuple[str, str]:
    namespace, _, name = path.rpartition("/")
    if not is_name(name) or (namespace and not is_name(namespace)):
        raise BadTarget(f"{shown}: not the name of an object")
    return namespace, name


def _split(text: str, shown: str) -> tuple[str, str]:
    """Return host and port; the port is "" without one."""
    if text.startswith("["):
        host, bracket, port = text[1:].partition("]")
        if not bracket or (port and not port.startswith(":")):
            raise BadTarget(f"{shown}: an IPv6 address with a port is written [ADDRESS]:PORT")
        return host, port[1:]
    if text.count(":") > 1:
        return text, ""  # an IPv6 address
    host, _, port = text.partition(":")
    return host, port


def _address(text: str) -> str | None:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return None


def _port(text: str, shown: str) -> str:
    if text.isascii() and text.isdigit():
        if 1 <= int(text[:6]) <= 65535:
            return str(int(text[:6]))
        raise BadTarget(f"{shown}: a port is a number from 1 to 65535")
    if text and (len(text) > _LONGEST_PORT_NAME or not is_name(text)):
        raise BadTarget(f"{shown}: neither a port number nor a port's name")
    return text
