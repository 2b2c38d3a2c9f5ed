"""Values of CEL as Python objects.

    bool, int, double, string, bytes, null     bool, int, float, str, bytes, None
    uint, timestamp, duration                  Uint, Timestamp, Duration: integers (times in nanoseconds)
    list, map, object                          list, and dict or another Mapping; an object has its names in JSON
    optional_type                              Optional
    type                                       types.Type
    values of libraries                        classes with an attribute `cel_type`

Pure: no I/O, no clock, no randomness. Source: CEL language definition "Values", "Equality".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .errors import CostLimitExceeded, EvaluationError
from .types import (
    BOOL,
    BYTES,
    COMPARABLE,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    LIST_TYPE,
    MAP_TYPE,
    NULL,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    Type,
    optional_of,
)

SECOND = 1_000_000_000

# Work that one evaluation may do for each unit of cost that it may have, beside what costs cover: comparisons of nested
# values, building of lists and strings. One unit of work is about 100 ns, or 8 bytes.
_WORK_FOR_COST = 10
_COMPARISON_WORK = 10


class Uint(int):
    __slots__ = ()
    cel_type = UINT


class Timestamp(int):
    """Nanoseconds since the epoch.

    `offset` is the offset from UTC in seconds that the text of the timestamp had: it is in the timestamp's own text and
    fields, but does not count in comparisons.
    """

    offset = 0
    cel_type = TIMESTAMP


class Duration(int):
    """Nanoseconds."""

    __slots__ = ()
    cel_type = DURATION


class Optional:
    """A value that may be absent. `NONE` is the absent one."""

    __slots__ = ("is_present", "value")
    cel_type = optional_of(DYN)

    def __init__(self, value: Any = None, *, is_present: bool = True) -> None:
        self.value = value
        self.is_present = is_present


NONE = Optional(is_present=False)

_TYPES: dict[type, Type] = {
    bool: BOOL, int: INT, float: DOUBLE, str: STRING, bytes: BYTES, type(None): NULL, list: LIST_TYPE, tuple: LIST_TYPE,
    dict: MAP_TYPE, Type: TYPE,
}  # fmt: skip
_NUMBERS = frozenset({int, Uint, float})
_COMPARED_AT_ONCE = frozenset({str, int, bool, float, Uint, Timestamp, Duration, bytes})


class Frame:
    """The state of one evaluation: variables, the local ones of macros, and the cost so far.

    `limit` is the most that it may cost. `work` bounds what Kubernetes' costs do not count.
    """

    __slots__ = ("cost", "limit", "locals", "variables", "work")

    def __init__(self, variables: Mapping[str, Any], locals_count: int, limit: int) -> None:
        self.variables = variables
        self.locals: list[Any] = [None] * locals_count
        self.cost = 0
        self.limit = limit
        self.work = limit * _WORK_FOR_COST

    def charge(self, cost: int) -> None:
        """Add to the cost. Raises CostLimitExceeded."""
        self.cost += cost
        if self.cost > self.limit:
            raise CostLimitExceeded

    def do(self, work: int) -> None:
        """Count work (see `_WORK_FOR_COST`). Raises CostLimitExceeded."""
        self.work -= work
        if self.work < 0:
            raise CostLimitExceeded


def in_key_order(items: list[Any], keys: list[Any]) -> list[Any]:
    """Return the items in the order of their keys. Raises EvaluationError for keys that have no order."""
    if not keys:
        return []
    if cel_type(keys[0]).kind not in COMPARABLE:
        raise EvaluationError("list elements must be comparable")
    if any(type(key) is not type(keys[0]) for key in keys):
        raise EvaluationError("list elements must have the same type")
    return [items[index] for index in sorted(range(len(keys)), key=keys.__getitem__)]


def cel_type(value: Any) -> Type:
    """Return the type of a value at run time; elements of lists and maps are dyn."""
    known = _TYPES.get(type(value))
    if known is not None:
        return known
    if isinstance(value, Mapping):
        return MAP_TYPE
    found: Type = value.cel_type
    return found


def size_of(value: Any) -> int:
    """Return the number of characters, bytes, items or entries; 1 for a scalar. Source: cel-go `actualSize`."""
    kind = type(value)
    if kind in (str, list, dict, bytes):
        return len(value)
    if hasattr(value, "cel_size"):
        return int(value.cel_size)
    return len(value) if isinstance(value, Mapping) else 1


def equal(frame: Frame, one: Any, other: Any) -> bool:
    """Compare two values; numbers are equal across types, values of other different types are not equal."""
    kind, other_kind = type(one), type(other)
    if kind is other_kind:
        if kind is list:
            if len(one) != len(other):
                return False
            types = set(map(type, one))
            if types <= _COMPARED_AT_ONCE and len(types) == 1 and types == set(map(type, other)):
                frame.do(len(one))
                return bool(one == other)
            frame.do(len(one) * _COMPARISON_WORK)
            return all(equal(frame, a, b) for a, b in zip(one, other, strict=True))
        if kind is dict:
            return _equal_maps(frame, one, other)
        if kind is Optional:
            if one.is_present and other.is_present:
                return equal(frame, one.value, other.value)
            return bool(one.is_present == other.is_present)
        return bool(one == other)
    if kind in _NUMBERS and other_kind in _NUMBERS:
        return bool(one == other)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return _equal_maps(frame, one, other)
    return False


def _equal_maps(frame: Frame, one: Mapping[Any, Any], other: Mapping[Any, Any]) -> bool:
    if len(one) != len(other):
        return False
    frame.do(len(one) * _COMPARISON_WORK)
    return all(key in other and equal(frame, value, other[key]) for key, value in one.items())


def hashable(value: Any) -> Any:
    """Return a key by which equal scalars are found in a set; None for a value without one."""
    kind = type(value)
    if kind is bool or kind is Timestamp or kind is Duration:
        return kind, int(value)
    if kind is str or kind in _NUMBERS or kind is bytes:
        return value
    return None


def contains(frame: Frame, items: list[Any], wanted: Any) -> bool:
    """Return whether a list has an element equal to `wanted`."""
    if type(wanted) is str or type(wanted) is bytes:
        return wanted in items
    return any(equal(frame, item, wanted) for item in items)


def lookup(container: Any, key: Any) -> Any:
    """Return an element of a list or an entry of a map, optional if the container is. Raises EvaluationError."""
    if type(container) is list:
        if type(key) is float and key.is_integer():
            key = int(key)
        if type(key) not in (int, Uint):
            raise EvaluationError(f"unsupported index type '{cel_type(key)}' in list")
        if 0 <= key < len(container):
            return container[key]
        raise EvaluationError(f"index out of bounds: {key}")
    if isinstance(container, Mapping):
        if type(key) in (str, int, bool, Uint) or (type(key) is float and key.is_integer()):
            try:
                return container[key]
            except KeyError:
                raise EvaluationError(f"no such key: {display(key)}") from None
        raise EvaluationError("unsupported key type")
    if type(container) is Optional:
        return optional_lookup(container, key)
    raise EvaluationError("no such overload")


def optional_lookup(container: Any, key: Any) -> Optional:
    """Return an element or entry as an Optional. Raises EvaluationError for a key of a wrong type."""
    if type(container) is Optional:
        return optional_lookup(container.value, key) if container.is_present else NONE
    try:
        found = lookup(container, key)
    except EvaluationError as error:
        if str(error).startswith(("no such key", "index out of bounds")):
            return NONE
        raise
    return found if type(found) is Optional else Optional(found)


def display(value: Any) -> str:
    """Return a scalar as Go prints it in messages."""
    if type(value) is bool:
        return "true" if value else "false"
    return str(value)


def check_int(value: int) -> int:
    """Return a result of integer arithmetic. Raises EvaluationError if 64 bits do not hold it."""
    if -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
        return value
    raise EvaluationError("integer overflow")


def check_uint(value: int) -> Uint:
    """Return a result of unsigned arithmetic. Raises EvaluationError if 64 bits do not hold it."""
    if 0 <= value <= 0xFFFFFFFFFFFFFFFF:
        return Uint(value)
    raise EvaluationError("unsigned integer overflow")
