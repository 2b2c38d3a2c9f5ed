"""Read fields of a parsed YAML or JSON document, and list the fields that were not read. `config.py` uses it.

The fields of a section are written once: as those of a dataclass, whose defaults are rows (`setting`). Every method
raises ConfigInvalid with the full name of the field.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from bridgehead.objects.times import parse_duration

from .address_texts import canonical_address, canonical_cidr
from .errors import ConfigInvalid

MAX_INT32 = 2**31 - 1
NOT_NEGATIVE, POSITIVE = "must be greater than or equal to 0", "must be greater than 0"
_LONGEST_SHOWN = 80  # characters of a value in an error
T = TypeVar("T")


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
        if not isinstance(value, int) or isinstance(value, bool):
            raise ConfigInvalid(f"{self._name(name)}: {value!r} is not a whole number")
        if not lowest <= value <= highest:
            is_open = (lowest, highest) == (0, MAX_INT32) and value < 0
            within = NOT_NEGATIVE if is_open else f"must be within the range [{lowest}, {highest}]"
            raise invalid(self._name(name), value, within)
        return value

    def seconds(self, name: str, default: float, *, below_zero: str = NOT_NEGATIVE) -> float:
        """Return the seconds of a duration in Go's format. `below_zero`: the error for a negative one."""
        value = self._value(name)
        if value is None:
            return default
        text = str(value)
        try:
            seconds = parse_duration(text.removeprefix("-"))
        except ValueError as error:
            raise ConfigInvalid(f"{self._name(name)}: {text[:80]!r} is not a duration such as 30s") from error
        if text.startswith("-") and seconds:
            raise invalid(self._name(name), text, below_zero)
        return seconds

    def texts(self, name: str) -> list[str]:
        value = self._value(name)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
            raise ConfigInvalid(f"{self._name(name)}: not a list of strings")
        return value

    def cidrs(self, name: str) -> tuple[str, ...]:
        """Return the ranges of a list."""
        found = []
        for index, text in enumerate(self.texts(name)):
            cidr = canonical_cidr(text)
            if cidr is None:
                raise invalid(f"{self._name(name)}[{index}]", text, "must be a valid CIDR")
            found.append(cidr)
        return tuple(found)

    def address(self, name: str) -> str:
        """Return a canonical address; "": none."""
        text = self.text(name)
        address = canonical_address(text) if text else ""
        if address is None:
            raise invalid(self._name(name), text, "not a valid textual representation of an IP address")
        return address

    def bind_address(self, name: str, default: tuple[str, int]) -> tuple[str, int]:
        return parse_bind_address(self._name(name), self.text(name), default)

    def skip(self, *names: str) -> None:
        """Mark fields as read: they have no effect, whatever their value."""
        for name in names:
            self._read.setdefault(name, None)

    def unread(self) -> Iterator[str]:
        """Yield the full names of fields that have a value and were not read."""
        for name, value in self._fields.items():
            if name not in self._read:
                if not is_unset(value):
                    yield self._name(name)
            elif (below := self._read[name]) is not None:
                yield from below.unread()

    def _value(self, name: str) -> Any:
        self._read.setdefault(name, None)
        return self._fields.get(name)

    def _name(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name


def invalid(field: str, value: object, why: str) -> ConfigInvalid:
    """Return the error for the value of a field, in the form of Kubernetes' own (`field.Invalid`)."""
    if isinstance(value, str):
        value = json.dumps(value if len(value) <= _LONGEST_SHOWN else f"{value[:_LONGEST_SHOWN]}...")
    return ConfigInvalid(f"{field}: Invalid value: {value}: {why}")


def parse_cidrs(field: str, text: str) -> tuple[str, ...]:
    """Return the canonical ranges of a comma-separated text. Raises ConfigInvalid."""
    found = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        cidr = canonical_cidr(part)
        if cidr is None:
            raise invalid(field, part, "must be a valid CIDR block (e.g. 10.100.0.0/16 or fde4:8dba:82e1::/48)")
        found.append(cidr)
    return tuple(found)


def parse_bind_address(field: str, text: str, default: tuple[str, int]) -> tuple[str, int]:
    """Parse `address:port`, `[address]:port`, or an address alone with the default's port. Raises ConfigInvalid."""
    if not text:
        return default
    if canonical_address(text) is not None:
        return text, default[1]
    host, port = split_host_port(text)
    if host is None:
        raise invalid(field, text, "must be IP:port")
    if canonical_address(host) is None:
        raise invalid(field, host, "must be a valid IP")
    if not re.fullmatch(r"[0-9]{1,5}", port) or not 0 < int(port) < 65536:
        raise invalid(field, port, "must be a valid port")
    return host, int(port)


def split_host_port(text: str) -> tuple[str | None, str]:
    """Return the two parts of `host:port` or `[host]:port`; (None, "") for other text. As Go's net.SplitHostPort."""
    if bracketed := re.fullmatch(r"\[([^][]*)\]:([^][:]*)", text):
        return bracketed[1], bracketed[2]
    plain = re.fullmatch(r"([^][:]*):([^][:]*)", text)
    return (plain[1], plain[2]) if plain else (None, "")


def is_unset(value: object) -> bool:
    """Return whether a value is what Go writes for a field that is not set."""
    if isinstance(value, dict):
        return all(map(is_unset, value.values()))
    return value in (None, "", 0, False, [], "0s")


class Setting(NamedTuple):
    """A row: the name of the field, its default as a file writes it, and the function that reads it."""

    name: str
    written: object
    read: Callable[[Section, str], object]


def setting(name: str, written: object, default: object, read: Callable[[Section, str], object]) -> Any:
    """Return a row with the default of the dataclass."""
    return dataclasses.field(default=default, metadata={"setting": Setting(name, written, read)})


def flag(name: str) -> Any:
    return setting(name, False, False, Section.flag)


def number(name: str, default: int, lowest: int, highest: int) -> Any:
    return setting(name, default, default, lambda section, name: section.number(name, default, lowest, highest))


def seconds(name: str, written: str) -> Any:
    """Return the row of a duration in Go's format, which the dataclass has in whole seconds."""
    default = int(parse_duration(written))
    return setting(name, written, default, lambda section, name: int(section.seconds(name, default)))


def read(kind: type[T], section: Section) -> T:
    """Return a section as a value of its dataclass. Raises ConfigInvalid for the first invalid field."""
    rows = {field.name: field.metadata["setting"] for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    return kind(**{attribute: row.read(section, row.name) for attribute, row in rows.items()})


def defaults_of(kind: type) -> dict[str, object]:
    """Return a section with the defaults of its fields, sorted by name, as a file writes it."""
    rows = [field.metadata["setting"] for field in dataclasses.fields(kind)]
    return {row.name: row.written for row in sorted(rows)}
