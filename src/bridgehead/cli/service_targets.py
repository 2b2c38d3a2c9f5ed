"""The argument `service/NAME` of commands, as kubectl takes it. Pure: no I/O, no clock, no randomness."""

from __future__ import annotations

from bridgehead.objects.names import check_dns1123_label

_KINDS = ("service", "services", "svc")


def parse_service(text: str) -> str:
    """Return the Service's name. Raises ValueError."""
    kind, slash, name = text.rpartition("/")
    if (slash and kind.lower() not in _KINDS) or check_dns1123_label(name):
        raise ValueError(f"{text!r} is not service/NAME")
    return name


def check_namespace(namespace: str) -> None:
    """Raise ValueError for a text that is not the name of a namespace."""
    if check_dns1123_label(namespace):
        raise ValueError(f"{namespace!r} is not the name of a namespace")
