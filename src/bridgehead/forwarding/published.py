"""The texts that publish a Service, or a node port, at a port of this machine: `8080:80/web.shop`, `30080:30080`.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.names import check_dns1123_label

MOST: Final = 64  # ports that one lab publishes
FORM: Final = "[udp:]LOCAL:PORT[/SERVICE[.NAMESPACE]]"


class Published(NamedTuple):
    """`service`: None if `port` is a node port. `protocol`: TCP or UDP."""

    local: int
    port: int
    service: ObjectKey | None
    protocol: str

    def __str__(self) -> str:
        to = f"service/{self.service.name} of {self.service.namespace}, port" if self.service else "node port"
        return f"{self.protocol.lower()} {self.local} -> {to} {self.port}"


def parse_published(text: str) -> Published:
    """Raises ValueError."""
    rest, protocol = (text[4:], "UDP") if text.lower().startswith("udp:") else (text, "TCP")
    ports, slash, target = rest.partition("/")
    local, colon, port = ports.partition(":")
    name, dot, namespace = target.partition(".")
    namespace = namespace if dot else "default"
    if not (colon and _is_port(local) and _is_port(port)):
        raise ValueError(f"{text!r} is not {FORM}")
    if slash and (check_dns1123_label(name) or check_dns1123_label(namespace)):
        raise ValueError(f"{text!r}: {target!r} is not SERVICE or SERVICE.NAMESPACE")
    return Published(int(local), int(port), ObjectKey(namespace, name) if slash else None, protocol)


def parse_all_published(texts: tuple[str, ...] | list[str]) -> list[Published]:
    """Parse the texts of one lab. Raises ValueError, also if two need the same port of this machine."""
    if len(texts) > MOST:
        raise ValueError(f"{len(texts)} ports are published; a lab publishes {MOST} at most")
    found = [parse_published(text) for text in texts]
    taken: set[tuple[int, str]] = set()
    for each in found:
        if (each.local, each.protocol) in taken:
            raise ValueError(f"{each.protocol} port {each.local} is published twice")
        taken.add((each.local, each.protocol))
    return found


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= 65535
