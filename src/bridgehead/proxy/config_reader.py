"""Read fields of a parsed YAML or JSON document, and list the fields that were not read. `config.py` uses it.

Every method raises ConfigInvalid with the full name of the field.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from bridgehead.objects.times import parse_duration

from .addresses import canonical_address, canonical_cidr
from .errors import ConfigInvalid


class Section:
    """One object of the document. An absent field, or null, has its default."""

    def __init__(self, fields: object, path: str = "") -> None:
        if fields is not None and not isinstance(fields, dict):
            raise ConfigInvalid(f"{path}: not an object")
        self._fields: Mapping[str, Any] = fields or {}
        self._path = path
        self._read: dict[str, Section | None] = {}

    def section(self, name: str) -> Section:
        found = Section(self._value(name), self._name(name))
        self._read[name] = found
        return found

    def text(self, name: str, default: str = "") -> str:
        value = self._value(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise ConfigInvalid(f"{self._name(name)}: {value!r} is not a string")
        return value or default

    def flag(self, name: str, *, default: bool = False) -> bool:
        value = self._value(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise ConfigInvalid(f"{self._name(name)}: {value!r} is neither true nor false")
        return value

    def number(self, name: str, default: int, lowest: int, highest: int) -> int:
        value = self._value(name)
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= highest:
            raise ConfigInvalid(f"{self._name(name)}: {value!r} is not a number from {lowest} to {highest}")
        return value

    def seconds(self, name: str, default: float) -> float:
        """Return the seconds of a duration in Go's format."""
        value = self._value(name)
        if value is None:
            return default
        try:
            return parse_duration(str(value))
        except ValueError as error:
            raise ConfigInvalid(f"{self._name(name)}: {error}") from error

    def texts(self, name: str) -> list[str]:
        value = self._value(name)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
            raise ConfigInvalid(f"{self._name(name)}: not a list of strings")
        return value

    def cidrs(self, name: str) -> tuple[str, ...]:
        """Return the ranges of a list, or of a comma-separated string (`clusterCIDR`)."""
        value = self._value(name)
        text = self.text(name) if isinstance(value, str) else ",".join(self.texts(name))
        return parse_cidrs(self._name(name), text)

    def address(self, name: str) -> str:
        """Return a canonical address; "": none."""
        text = self.text(name)
        address = canonical_address(text) if text else ""
        if address is None:
            raise ConfigInvalid(f"{self._name(name)}: {text!r} is not an address")
        return address

    def bind_address(self, name: str, default: tuple[str, int]) -> tuple[str, int] | None:
        return parse_bind_address(self._name(name), self.text(name), default)

    def skip(self, *names: str) -> None:
        """Mark fields as read: they have no effect, whatever their value."""
        for name in names:
            self._read.setdefault(name, None)

    def unread(self) -> Iterator[str]:
        """Yield the full names of fields that have a value and were not read."""
        for name, value in self._fields.items():
            if name not in self._read:
                if not _is_empty(value):
                    yield self._name(name)
            elif (below := self._read[name]) is not None:
                yield from below.unread()

    def _value(self, name: str) -> Any:
        self._read.setdefault(name, None)
        return self._fields.get(name)

    def _name(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name


def parse_cidrs(field: str, text: str) -> tuple[str, ...]:
    """Return the canonical ranges of a comma-separated text. Raises ConfigInvalid."""
    found = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        cidr = canonical_cidr(part)
        if cidr is None:
            raise ConfigInvalid(f"{field}: {part!r} is not a range of addresses such as 10.244.0.0/16")
        found.append(cidr)
    return tuple(found)


def parse_bind_address(field: str, text: str, default: tuple[str, int] | None) -> tuple[str, int] | None:
    """Parse `address:port`, `[address]:port`, or an address alone with the default's port. None: port 0."""
    if not text:
        return default
    host, colon, port = text.rpartition(":")
    if canonical_address(text) is not None or not colon:
        host, port = text, str(default[1]) if default is not None else "0"
    if not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65535:
        raise ConfigInvalid(f"{field}: {text!r} is not an address and a port")
    host = host.removeprefix("[").removesuffix("]")
    if host and canonical_address(host) is None:
        raise ConfigInvalid(f"{field}: {host!r} is not an address")
    return (host or "0.0.0.0", int(port)) if int(port) else None


def _is_empty(value: object) -> bool:
    if isinstance(value, dict):
        return all(map(_is_empty, value.values()))
    return value in (None, "", 0, False, [], "0s")
