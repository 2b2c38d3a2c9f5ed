"""Costs of calls: the actual cost for given arguments, and the estimate for given sizes.

Cost has no unit; Kubernetes takes one to be about 50 ns of its own server. A `Cost` is attached to each overload.

Pure: no I/O, no clock, no randomness.
Source: cel-go `interpreter/runtimecost.go`, `checker/cost.go`, Kubernetes `apiserver/pkg/cel/library/cost.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .types import UNBOUNDED
from .values import size_of


class Range(NamedTuple):
    """A range of costs or sizes. Arithmetic ends at 2**64 - 1, which is "unknown"."""

    least: int
    most: int

    def plus(self, other: Range) -> Range:
        return Range(min(self.least + other.least, UNBOUNDED), min(self.most + other.most, UNBOUNDED))

    def times(self, other: Range) -> Range:
        return Range(min(self.least * other.least, UNBOUNDED), min(self.most * other.most, UNBOUNDED))

    def tenths(self, factor: int = 1) -> Range:
        """Return the cost of a traversal of strings: a tenth for each character, times `factor`, rounded up."""
        return Range(min(-(-self.least * factor // 10), UNBOUNDED), min(-(-self.most * factor // 10), UNBOUNDED))

    def quarters(self) -> Range:
        """Return the cost factor of a regular expression of this length."""
        return Range(min(-(-self.least // 4), UNBOUNDED), min(-(-self.most // 4), UNBOUNDED))

    def union(self, other: Range) -> Range:
        return Range(min(self.least, other.least), max(self.most, other.most))


def exactly(number: int) -> Range:
    return Range(number, number)


UNKNOWN = Range(0, UNBOUNDED)
ONE = exactly(1)


@dataclass(frozen=True, slots=True)
class Operand:
    """A target or argument in an estimate: its size, and the size of its elements if it is a list of strings."""

    size: Range
    item_size: Range | None = None
    is_list: bool = False
    number: int | None = None  # the value of a literal, 0 for a negative one


Estimate = tuple[Range, Range | None]


@dataclass(frozen=True, slots=True)
class Cost:
    """`actual` returns the cost for arguments, before the call; `estimate` the cost, and the result's size if known.

    `fixed` is the actual cost when it does not depend on arguments. `work` is that of a call that takes longer than
    its cost states (`values.Frame.do`).
    """

    actual: Callable[..., int]
    estimate: Callable[[Sequence[Operand]], Estimate]
    fixed: int | None = None
    work: int = 0


# Parsing of an address, a time or a quantity takes some microseconds.
PARSING_WORK = 100


def fixed(cost: int, work: int = 0) -> Cost:
    return Cost(lambda *args: cost, lambda operands: (exactly(cost), None), cost, work)


def _tenths(number: int, factor: int = 1) -> int:
    return -(-number * factor // 10)


def _unsized(estimate: Callable[[Sequence[Operand]], Range]) -> Callable[[Sequence[Operand]], Estimate]:
    return lambda operands: (estimate(operands), None)


def traversal(factor: int = 1, *, keeps_size: bool = False, is_estimated: bool = True, work: int = 0) -> Cost:
    """Return the cost of reading the first operand once, `factor` times. `keeps_size`: the result is as long as it.

    Kubernetes estimates 1 for `isURL`, although it charges by size: `is_estimated` is False for it.
    """

    def estimate(operands: Sequence[Operand]) -> Estimate:
        size = operands[0].size
        return size.tenths(factor) if is_estimated else ONE, size if keeps_size else None

    return Cost(lambda value, *rest: _tenths(size_of(value), factor), estimate, work=work)


def _compare_estimate(operands: Sequence[Operand]) -> Range:
    most = min(operands[0].size.most, operands[1].size.most)
    return Range(1 if most else 0, most).tenths()


def _items_estimate(operands: Sequence[Operand]) -> Range:
    target = operands[0]
    if not target.is_list:
        return target.size.tenths()
    each = ONE if target.item_size is None else ONE.plus(target.item_size.tenths())
    return target.size.times(each)


def _total_size(value: Any) -> int:
    """Return the cost of reading a value with all that it contains. Source: Kubernetes `traversalCost`."""
    if isinstance(value, str | bytes):
        return len(value) // 10
    if isinstance(value, list):
        return sum(map(_total_size, value))
    if isinstance(value, dict):
        return sum(_total_size(key) + _total_size(item) for key, item in value.items())
    return 1


def _regex_estimate(operands: Sequence[Operand]) -> Range:
    return operands[0].size.plus(ONE).tenths().times(operands[1].size.quarters())


def _regex_cost(text: str, pattern: str, *rest: Any) -> int:
    return _tenths(1 + len(text)) * -(-len(pattern) // 4)


def _join_estimate(operands: Sequence[Operand]) -> Estimate:
    count = operands[0].size
    size = Range(0, 0) if operands[0].item_size is None else count.times(operands[0].item_size)
    if len(operands) > 1:
        size = size.plus(operands[1].size.times(Range(max(count.least - 1, 0), max(count.most - 1, 0))))
    return size.tenths(), size


def _replace_estimate(operands: Sequence[Operand]) -> Estimate:
    text, old, new = operands[0].size, operands[1].size, operands[2].size
    # The longest result replaces the shortest possible text, the shortest one the longest.
    kept_most = kept_least = 0
    if old.least == 0:
        count_most, kept_most = text.most + 1, text.most
    elif new.most <= old.least:
        count_most, kept_most = 0, text.most
    else:
        count_most = -(-text.most // old.least)
    if old.most == 0:
        count_least, kept_least = text.least + 1, text.least
    elif old.most <= new.least:
        count_least, kept_least = 0, text.least
    else:
        count_least = -(-text.least // old.most)
    size = Range(min(count_least, UNBOUNDED), min(count_most, UNBOUNDED)).times(new).plus(Range(kept_least, kept_most))
    return text.tenths(2), size


def _added(operands: Sequence[Operand]) -> Range:
    return operands[0].size.plus(operands[1].size)


def _new_list(size: Range) -> Estimate:
    """Return the estimate of a call that makes a list in `size` steps. As in cel-go, this is also the list's size."""
    return size.plus(exactly(_NEW_LIST)), size


def _slice_estimate(operands: Sequence[Operand]) -> Estimate:
    size, start, end = operands[0].size, operands[1].number or 0, operands[2].number
    # As in cel-go, whose sizes have no sign, an end before the start is a huge size.
    return _new_list(exactly(((size.most if end is None else end) - start) % 2**64))


def _flatten_estimate(operands: Sequence[Operand]) -> Estimate:
    size = operands[0].size
    depth = 1 if len(operands) == 1 else UNBOUNDED if operands[1].number is None else operands[1].number
    return size.times(exactly(depth)).plus(exactly(_NEW_LIST)), size


def _self_comparison_estimate(operands: Sequence[Operand]) -> Estimate:
    pairs = operands[0].size.times(operands[0].size)
    return pairs.tenths(20 if operands[0].item_size is None else 21).plus(exactly(_NEW_LIST)), pairs


def _self_comparison_cost(items: Any) -> int:
    factor = 21 if items and isinstance(items[0], str | bytes) else 20
    return len(items) ** 2 * factor // 10 + _NEW_LIST


_NEW_LIST = 11  # a call, and the list that it makes
# sortBy binds its list to a variable, which it reads twice.
SORT_BY_OVERHEAD = 2
NOTHING = fixed(0)
CONSTANT = fixed(1)
PARSING = fixed(1, PARSING_WORK)
TEXT_PARSING = traversal(work=PARSING_WORK)
AUTHORIZATION_CHECK = fixed(350_000)
COMPARISON = Cost(lambda one, other: _tenths(min(size_of(one), size_of(other))), _unsized(_compare_estimate))
MEMBERSHIP = Cost(lambda item, items: len(items), _unsized(lambda operands: operands[1].size))
CONCATENATION = Cost(
    lambda one, other: _tenths(len(one) + len(other)), lambda operands: (_added(operands).tenths(), _added(operands))
)
LIST_CONCATENATION = Cost(lambda one, other: 1, lambda operands: (ONE, _added(operands)), 1)
AFFIX = Cost(lambda text, affix: _tenths(len(text)), _unsized(lambda operands: operands[1].size.tenths()))
SUBSTRING_SEARCH = Cost(
    lambda text, part: _tenths(len(text)) * _tenths(len(part)),
    _unsized(lambda operands: operands[0].size.tenths().times(operands[1].size.tenths())),
)
REGEX = Cost(_regex_cost, _unsized(_regex_estimate))
REGEX_FIND = Cost(_regex_cost, lambda operands: (_regex_estimate(operands), Range(0, operands[0].size.most)))
LIST_TRAVERSAL = Cost(lambda items, *rest: _total_size(items), _unsized(_items_estimate))
LIST_REVERSAL = Cost(lambda items: len(items) + _NEW_LIST, lambda operands: _new_list(operands[0].size))
LIST_SLICE = Cost(lambda items, start, end: max(end - start, 0) + _NEW_LIST, _slice_estimate)
LIST_RANGE = Cost(
    lambda count: max(count, 0) + _NEW_LIST,
    lambda operands: _new_list(exactly(UNBOUNDED if operands[0].number is None else operands[0].number)),
)
LIST_FLATTENING = Cost(lambda items, depth=1: len(items) * max(depth, 1) + _NEW_LIST, _flatten_estimate)
SELF_COMPARISON = Cost(_self_comparison_cost, _self_comparison_estimate)
JOIN = Cost(
    lambda items, separator="": _tenths(
        sum(size_of(item) for item in items) + len(separator) * max(len(items) - 1, 0), 2
    ),
    _join_estimate,
)
SPLIT = Cost(
    lambda text, *rest: _tenths(len(text), 2),
    lambda operands: (operands[0].size.tenths(2), Range(0, operands[0].size.most)),
)
REPLACE = Cost(lambda text, *rest: _tenths(len(text), 2), _replace_estimate)
TO_BYTES = Cost(
    lambda text: _tenths(len(text)),
    lambda operands: (operands[0].size.tenths(), operands[0].size.times(Range(1, 4))),
)
TO_TEXT = Cost(
    lambda data: _tenths(len(data)),
    lambda operands: (operands[0].size.tenths(), Range(operands[0].size.least // 4, operands[0].size.most)),
)
SET_COMPARISON = Cost(
    lambda one, other: 1 + len(one) * len(other),
    _unsized(lambda operands: operands[0].size.times(operands[1].size).plus(ONE)),
)
SET_EQUIVALENCE = Cost(
    lambda one, other: 1 + 2 * len(one) * len(other),
    _unsized(lambda operands: operands[0].size.times(operands[1].size).times(exactly(2)).plus(ONE)),
)
