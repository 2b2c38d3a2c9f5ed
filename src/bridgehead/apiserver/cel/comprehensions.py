"""The loops of macros.

The costs of one round are those of the expression that cel-go expands a macro to, beside the macro's own arguments.

Pure: no I/O, no clock, no randomness. Source: cel-go `parser/macro.go`, `ext/comprehensions.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .costs import SELF_COMPARISON, SORT_BY_OVERHEAD
from .errors import CostLimitExceeded, EvaluationError
from .values import Frame, in_key_order

Step = Callable[[Frame], Any]

# Costs by kind: that of each round, the additional one of a round that the condition accepts, and that of the result.
ROUND_COSTS = {
    "all": (3, 0, 1),
    "exists": (4, 0, 1),
    "exists_one": (1, 1, 2),
    "filter": (1, 12, 1),
    "map": (1, 11, 1),
    "transform_list": (1, 11, 1),
    "sort_by": (1, 11, 1),
    "transform_map": (1, 2, 1),
    "transform_entry": (1, 1, 1),
}


@dataclass(frozen=True, slots=True)
class Loop:
    """A compiled macro. `first` and `second` are the slots of its variables."""

    kind: str
    source: Step
    first: int
    second: int | None
    condition: Step | None
    result: Step | None


def make_loop(loop: Loop) -> Step:
    if loop.kind in ("all", "exists"):
        return _quantifier(loop)
    if loop.kind == "exists_one":
        return _exists_one(loop)
    if loop.kind == "filter":
        return _collector(loop, lambda frame: frame.locals[loop.first])
    if loop.kind in ("map", "transform_list") and loop.result is not None:
        return _collector(loop, loop.result)
    if loop.kind == "sort_by" and loop.result is not None:
        return _sorter(loop, loop.result)
    return _mapper(loop)


def _rounds(loop: Loop, frame: Frame) -> Iterable[Any]:
    """Yield once for each element, with the loop's variables set; charge the cost of a round."""
    source = loop.source(frame)
    cost = ROUND_COSTS[loop.kind][0]
    first, second, slots, limit = loop.first, loop.second, frame.locals, frame.limit
    if type(source) is list:
        pairs: Iterable[tuple[Any, Any]] = enumerate(source)
    elif isinstance(source, Mapping):
        pairs = source.items() if second is not None else ((None, key) for key in source)
    else:
        raise EvaluationError("got 'no such overload' for the range of a comprehension: no such overload")
    for key, item in pairs:
        if second is None:
            slots[first] = item
        else:
            slots[first], slots[second] = key, item
        frame.cost += cost
        if frame.cost > limit:
            raise CostLimitExceeded
        yield item


def _holds(condition: Step, frame: Frame) -> bool:
    value = condition(frame)
    if value is True:
        return True
    if value is False:
        return False
    raise EvaluationError("no such overload")


def _quantifier(loop: Loop) -> Step:
    """Return `all` or `exists`: an error counts only if no element decides."""
    decisive, condition, end = loop.kind == "exists", loop.condition, ROUND_COSTS[loop.kind][2]

    def run(frame: Frame) -> Any:
        failure: EvaluationError | None = None
        for _ in _rounds(loop, frame):
            try:
                value = condition(frame)  # type: ignore[misc]  # always given
            except CostLimitExceeded:
                raise
            except EvaluationError as error:
                failure = error
                continue
            if value is decisive:
                frame.cost += end
                return decisive
            if value is not (not decisive):
                failure = EvaluationError("no such overload")
        frame.cost += end
        if failure is not None:
            raise failure
        return not decisive

    return run


def _exists_one(loop: Loop) -> Step:
    _, more, end = ROUND_COSTS[loop.kind]

    def run(frame: Frame) -> bool:
        count = 0
        for _ in _rounds(loop, frame):
            if loop.condition is not None and _holds(loop.condition, frame):
                frame.cost += more
                count += 1
        frame.cost += end
        return count == 1

    return run


def _collector(loop: Loop, result: Step) -> Step:
    """Return a loop that makes a list of the results for the elements that the condition accepts."""
    condition = loop.condition
    _, more, end = ROUND_COSTS[loop.kind]

    def run(frame: Frame) -> list[Any]:
        made = []
        for _ in _rounds(loop, frame):
            if condition is None or _holds(condition, frame):
                frame.cost += more
                made.append(result(frame))
        frame.cost += end
        return made

    return run


def _sorter(loop: Loop, result: Step) -> Step:
    """Return a loop that sorts a list by the keys that `result` makes of the elements."""
    _, more, end = ROUND_COSTS["sort_by"]

    def run(frame: Frame) -> list[Any]:
        items, keys = [], []
        for item in _rounds(loop, frame):
            frame.cost += more
            items.append(item)
            keys.append(result(frame))
        frame.charge(end + SORT_BY_OVERHEAD + SELF_COMPARISON.actual(keys))
        return in_key_order(items, keys)

    return run


def _mapper(loop: Loop) -> Step:
    """Return a loop that makes a map: of the keys and results, or of the entries that the result returns."""
    condition, result, first = loop.condition, loop.result, loop.first
    _, more, end = ROUND_COSTS[loop.kind]

    def run(frame: Frame) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        for _ in _rounds(loop, frame):
            if condition is not None and not _holds(condition, frame):
                continue
            frame.cost += more
            value = result(frame)  # type: ignore[misc]  # always given
            if loop.kind == "transform_map":
                made[frame.locals[first]] = value
                continue
            frame.do(len(value))
            for key, item in value.items():
                if key in made:
                    raise EvaluationError(f"insert failed: key {key} already exists")
                made[key] = item
        frame.cost += end
        return made

    return run
