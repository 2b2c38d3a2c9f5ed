"""The elements of sticky Frontends: the Service port's name, the numbers of its backends, where those are. Pure.

`render.py` calls it; the chains that use the elements are `chains._pick_sticky`, and README.md shows both at work.
Everything is computed from the Frontend alone, so that a restarted proxy makes the elements that the clients remembered
by its predecessor belong to.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from ipaddress import IPv6Address
from itertools import compress
from operator import attrgetter, is_not, ne

from bridgehead.proxy.addresses import Family
from bridgehead.proxy.frontends import Backend, Frontend, FrontendKey

from .chains import INSIDE, SECOND_LIST, backend_words, key_words, priority_words

# A backend's number is for a moment the packet's priority. The last four bits, by which queues sort packets, are those
# of ordinary ones; the two bits set here are there because nft writes 0 in either half differently.
_NUMBER_BITS, _NUMBER_BASE, _NEXT_NUMBER = 0x7FFFFFC0, 0x80000020, 0x40


Elements = dict[str, dict[str, str]]  # container -> key -> value


def sticky_elements(frontend: Frontend) -> Elements:
    """All of them. Nothing for a Frontend that is not sticky."""
    return _elements(frontend, [(numbers, range(len(numbers))) for numbers in map(_numbers, _lists(frontend))])


def sticky_difference(old: Frontend | None, new: Frontend | None) -> tuple[Elements, Elements]:
    """What the first has and the second has not, or not so, and the other way round. Both have the same key, if any."""
    if old is None or new is None or old.affinity_seconds is None or new.affinity_seconds is None:
        before, after = (sticky_elements(frontend) if frontend is not None else {} for frontend in (old, new))
    else:
        old_numbers, new_numbers = ([_numbers(backends) for backends in _lists(f)] for f in (old, new))
        places = [_differing(*lists) for lists in zip(_lists(old), old_numbers, _lists(new), new_numbers, strict=True)]
        before = _elements(old, list(zip(old_numbers, places, strict=True)))
        after = _elements(new, list(zip(new_numbers, places, strict=True)))
    return _lacking(before, after), _lacking(after, before)


def _lists(frontend: Frontend) -> tuple[Sequence[Backend], Sequence[Backend]]:
    return frontend.backends, frontend.inside or ()


def _elements(frontend: Frontend, numbered: Sequence[tuple[list[int], Iterable[int]]]) -> Elements:
    """`numbered`: of the usual backends, and of the inside ones, the numbers, and the places that matter."""
    if frontend.affinity_seconds is None:
        return {}
    key = frontend.key
    where = "affinity-nodeport" if key.is_node_port else "affinity"
    words, prefix = key_words(key), backend_words(key)
    choices: dict[str, str] = {}
    targets: dict[str, str] = {}
    for base, flag, backends, (numbers, places) in zip(
        (0, INSIDE), (0, SECOND_LIST), _lists(frontend), numbered, strict=True
    ):
        for place in places:
            if place < len(backends):
                backend, number = backends[place], numbers[place]
                choices[f"{words} . {base + place}"] = priority_words(number)
                targets[f"{prefix} . {priority_words(number | flag)}"] = f"{backend.address} . {backend.port}"
    return {
        f"{where}-names": {words: _name_of(frontend.owner, key)},
        f"{where}-choices": choices,
        f"{key.protocol}-{where}-backends": targets,
    }


def _differing(
    old: Sequence[Backend], old_numbers: list[int], new: Sequence[Backend], new_numbers: list[int]
) -> Iterable[int]:
    """The places where the lists have different backends, or different numbers for one."""
    common = min(len(old), len(new))
    others = set(compress(range(common), map(is_not, old, new)))
    others |= set(compress(range(common), map(ne, old_numbers, new_numbers)))
    return sorted((*others, *range(common, max(len(old), len(new)))))


def _lacking(some: Elements, others: Elements) -> Elements:
    found: Elements = {}
    for name, elements in some.items():
        other = others.get(name, {})
        found[name] = {key: value for key, value in elements.items() if other.get(key) != value}
    return found


def _name_of(owner: str, key: FrontendKey) -> str:
    return _name(owner, key.protocol, key.family)


@lru_cache(maxsize=1024)
def _name(owner: str, protocol: str, family: Family) -> str:
    """The name of a Service port in the form of an address that nobody has: of 240.0.0.0/4, or of 100::/64 (RFC 6666).

    Two may have the same. Then a client of both is taken to be new whenever it changes between them.
    """
    digest = hashlib.blake2b(f"{owner},{protocol}".encode(), digest_size=8).digest()
    if family == 6:
        return IPv6Address((0x100 << 112) + int.from_bytes(digest)).compressed
    return f"{240 + (digest[0] & 15)}.{digest[1]}.{digest[2]}.{digest[3]}"


def _numbers(backends: Sequence[Backend]) -> list[int]:
    """A number for each backend, all different, that it keeps in whatever company it is: but for rare collisions."""
    numbers = list(map(_number, map(_ADDRESS, backends), map(_PORT, backends)))
    if len(set(numbers)) == len(numbers):
        return numbers
    taken: set[int] = set()
    for *_, index in sorted((backend.address, backend.port, index) for index, backend in enumerate(backends)):
        number = numbers[index]
        while number in taken:
            number = (number + _NEXT_NUMBER) & _NUMBER_BITS | _NUMBER_BASE
        taken.add(number)
        numbers[index] = number
    return numbers


_ADDRESS, _PORT = attrgetter("address"), attrgetter("port")


@lru_cache(maxsize=16384)
def _number(address: str, port: int) -> int:
    return zlib.crc32(f"{address} {port}".encode()) & _NUMBER_BITS | _NUMBER_BASE
