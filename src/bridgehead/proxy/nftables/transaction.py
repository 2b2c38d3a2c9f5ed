"""A change of the tables as a value, and as nft text. Pure: `render.py` fills it, `mode.py` applies it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from bridgehead.proxy.addresses import Family

from .chains import containers, word

# Elements are added in this order and deleted in the reverse: what is referred to comes before who refers.
CONTAINERS = tuple(reversed(containers(4)))


class Container(NamedTuple):
    """A set or map of one of our tables."""

    family: Family
    name: str


@dataclass
class Transaction:
    """One change of the kernel as a value. `text` sends it whole; `chunks` is for kernels that refuse its size."""

    table: str
    structure: list[str] = field(default_factory=list)
    removed: dict[Container, list[str]] = field(default_factory=dict)
    added: dict[Container, list[str]] = field(default_factory=dict)
    closing: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.structure or self.removed or self.added or self.closing)

    def size(self) -> int:
        """The number of elements it touches."""
        return sum(map(len, self.removed.values())) + sum(map(len, self.added.values()))

    def weight(self) -> int:
        """What the netlink socket has to take, in messages like those of an element."""
        return self.size() + sum(map(_weight, self.structure)) + len(self.closing)

    def text(self) -> str:
        return _lines((*self.structure, *self._elements(0), *self.closing))

    def chunks(self, limit: int) -> Iterator[str]:
        """The same in texts of at most `limit` elements, to be applied one after the other."""
        weight, lines = 0, list[str]()
        for line in self.structure:
            if lines and weight + _weight(line) > limit:
                yield _lines(lines)
                weight, lines = 0, []
            weight += _weight(line)
            lines.append(line)
        yield _lines(lines)
        for statement in self._elements(limit):
            yield _lines((statement,))
        for start in range(0, len(self.closing), limit):
            yield _lines(self.closing[start : start + limit])

    def _elements(self, limit: int) -> Iterator[str]:
        for verb, elements, names in (
            ("delete", self.removed, tuple(reversed(CONTAINERS))),
            ("add", self.added, CONTAINERS),
        ):
            for name in names:
                for family in (4, 6):
                    lines = elements.get(Container(family, name), ())
                    step = limit or len(lines) or 1
                    for start in range(0, len(lines), step):
                        some = ",\n  ".join(lines[start : start + step])
                        yield f"{verb} element {word(family)} {self.table} {name} {{\n  {some}\n}}"


def _weight(line: str) -> int:
    """Of a line of structure: a rule may have a map of its own."""
    return 1 + line.count(" : goto ")


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
