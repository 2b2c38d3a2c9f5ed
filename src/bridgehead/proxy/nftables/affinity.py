"""The elements of Frontends with session affinity: the Service port's name, and its backends' numbers and addresses.

Pure: no I/O, no clock, no randomness.

`render.py` calls it; the chains that use the elements are those of `chains._choose_with_affinity`. All elements are
computed from the Frontend alone, so that what the kernel recorded of clients stays valid when the proxy restarts.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from ipaddress import IPv6Address
from itertools import compress
from operator import attrgetter, is_not, ne

from bridgehead.proxy.address_texts import Family
from bridgehead.proxy.frontends import Backend, Frontend

from .chains import CLUSTER_BACKEND, backend_number, class_id, frontend_text

# A backend's number is a packet's priority for a moment. Its last four bits, by which queues sort packets, are those of
# ordinary packets. Two bits are always set, so that neither half is 0 (see `class_id`).
_NUMBER_BITS, _NUMBER_BASE, _NEXT_NUMBER = 0x7FFFFFC0, 0x80000020, 0x40


Elements = dict[str, dict[str, str]]  # container -> key -> value


def affinity_elements(frontend: Frontend) -> Elements:
    """Return all elements of a Frontend; none if it has no affinity."""
    return _elements(frontend, [(numbers, range(len(numbers))) for numbers in map(_numbers, _lists(frontend))])


def affinity_difference(old: Frontend | None, new: Frontend | None) -> tuple[Elements, Elements]:
    """Return the elements that only `old` has, and those that only `new` has. Both Frontends have the same key."""
    if old is None or new is None or old.affinity_seconds is None or new.affinity_seconds is None:
        before, after = (affinity_elements(frontend) if frontend is not None else {} for frontend in (old, new))
    else:
        old_numbers, new_numbers = ([_numbers(backends) for backends in _lists(f)] for f in (old, new))
        indexes = [
            _differing_indexes(*lists) for lists in zip(_lists(old), old_numbers, _lists(new), new_numbers, strict=True)
        ]
        before = _elements(old, list(zip(old_numbers, indexes, strict=True)))
        after = _elements(new, list(zip(new_numbers, indexes, strict=True)))
    return _subtract(before, after), _subtract(after, before)


def _lists(frontend: Frontend) -> tuple[Sequence[Backend], Sequence[Backend]]:
    return frontend.backends, frontend.cluster_backends or ()


def _elements(frontend: Frontend, numbered: Sequence[tuple[list[int], Iterable[int]]]) -> Elements:
    """Return elements of some backends. `numbered`: for each of `_lists`, all numbers and the wanted indexes."""
    if frontend.affinity_seconds is None:
        return {}
    key = frontend_text(frontend.key)
    choices: dict[str, str] = {}
    endpoints: dict[str, str] = {}
    for is_cluster, backends, (numbers, indexes) in zip((False, True), _lists(frontend), numbered, strict=True):
        for index in indexes:
            if index < len(backends):
                backend, number = backends[index], numbers[index]
                choices[f"{key} . {class_id(backend_number(index, is_cluster=is_cluster))}"] = class_id(number)
                endpoint = class_id(number | CLUSTER_BACKEND * is_cluster)
                endpoints[f"{key} . {endpoint}"] = f"{backend.address} . {backend.port}"
    name = _name(frontend.owner, frontend.key.protocol, frontend.key.family)
    return {"affinity-names": {key: name}, "affinity-choices": choices, "endpoints": endpoints}


def _differing_indexes(
    old: Sequence[Backend], old_numbers: list[int], new: Sequence[Backend], new_numbers: list[int]
) -> Iterable[int]:
    """Return the indexes at which the lists have different backends, or different numbers for one backend."""
    common = min(len(old), len(new))
    others = set(compress(range(common), map(is_not, old, new)))
    others |= set(compress(range(common), map(ne, old_numbers, new_numbers)))
    return sorted((*others, *range(common, max(len(old), len(new)))))


def _subtract(some: Elements, others: Elements) -> Elements:
    found: Elements = {}
    for name, elements in some.items():
        other = others.get(name, {})
        found[name] = {key: value for key, value in elements.items() if other.get(key) != value}
    return found


@lru_cache(maxsize=1024)
def _name(owner: str, protocol: str, family: Family) -> str:
    """Return the name of a Service port, in the form of an unused address: of 240.0.0.0/4, or of 100::/64 (RFC 6666).

    Two Service ports may have the same name. A client that alternates between them is then taken for a new one each
    time.
    """
    digest = hashlib.blake2b(f"{owner},{protocol}".encode(), digest_size=8).digest()
    if family == 6:
        return IPv6Address((0x100 << 112) + int.from_bytes(digest)).compressed
    return f"{240 + (digest[0] & 15)}.{digest[1]}.{digest[2]}.{digest[3]}"


def _numbers(backends: Sequence[Backend]) -> list[int]:
    """Return a number for each backend, independent of the other backends, except in a collision (rare)."""
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
