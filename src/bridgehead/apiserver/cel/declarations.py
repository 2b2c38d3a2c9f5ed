"""Declarations of functions: signatures, implementations and costs.

Pure: no I/O, no clock, no randomness. Source: cel-go `common/decls`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .costs import CONSTANT, Cost
from .types import Type, parse_type, split_types


@dataclass(frozen=True, slots=True, eq=False)
class Overload:
    """One signature of a function.

    `operands` are the types of the target, if `is_member`, and of the arguments. `run` gets their values and returns
    the result or raises EvaluationError; if `needs_frame`, the Frame comes first.
    """

    operands: tuple[Type, ...]
    result: Type
    is_member: bool
    run: Callable[..., Any]
    cost: Cost
    needs_frame: bool


Functions = Mapping[str, tuple[Overload, ...]]


def overload(signature: str, run: Callable[..., Any], cost: Cost = CONSTANT, *, needs_frame: bool = False) -> Overload:
    """Return an overload of a signature such as `string.(int) -> bool` or `(list(T), T) -> int` (see `parse_type`)."""
    left, _, result = signature.partition(" -> ")
    target, is_member, rest = left.partition(".(")
    arguments = rest[:-1] if is_member else left[1:-1]
    types = [parse_type(part) for part in split_types(arguments)]
    if is_member:
        types.insert(0, parse_type(target))
    return Overload(tuple(types), parse_type(result), bool(is_member), run, cost, needs_frame)


def merge(libraries: Iterable[Mapping[str, Iterable[Overload]]]) -> Functions:
    """Return the functions of several libraries; overloads of one name are put together."""
    merged: dict[str, tuple[Overload, ...]] = {}
    for library in libraries:
        for name, overloads in library.items():
            merged[name] = (*merged.get(name, ()), *overloads)
    return merged
