"""The arguments `service/NAME` and `-n NAMESPACE` of commands, as kubectl takes them.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.objects.names import check_dns1123_label

KINDS = ("service", "services", "svc")


def parse_service(text: str) -> str:
    """Return the Service's name. Raises ValueError."""
    name = _name_of(text)
    if check_dns1123_label(name):
        raise ValueError(f"{text!r} is not service/NAME")
    return name


def parse_service_port(text: str) -> tuple[str, int]:
    """Return the name of `service/web:80` and its port, 0 without one. Raises ValueError."""
    name, colon, port = _name_of(text).partition(":")
    is_port = port.isascii() and port.isdigit() and len(port) <= 5 and 1 <= int(port) <= 65535
    if check_dns1123_label(name) or (colon and not is_port):
        raise ValueError(f"{text!r} is not service/NAME or service/NAME:PORT")
    return name, int(port) if colon else 0


def _name_of(text: str) -> str:
    """Return the text after the kind; "" for another kind than Service."""
    kind, slash, name = text.rpartition("/")
    return name if not slash or kind.lower() in KINDS else ""


def check_namespace(namespace: str) -> None:
    """Raise ValueError for a text that is not the name of a namespace."""
    if check_dns1123_label(namespace):
        raise ValueError(f"{namespace!r} is not the name of a namespace")


def check_scope(namespace: str | None, all_namespaces: bool, *, has_names: bool = False) -> None:
    """Raise ValueError for an invalid -n, and for -A together with -n or with names of Services."""
    if namespace is not None:
        check_namespace(namespace)
    if all_namespaces and (has_names or namespace is not None):
        raise ValueError("-A excludes names of Services and -n")
