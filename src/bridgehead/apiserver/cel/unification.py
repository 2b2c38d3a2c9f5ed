"""Assignability of types, with type parameters.

A substitution maps names of type parameters to types. Pure: no I/O, no clock, no randomness.
Source: cel-go `checker/types.go`.
"""

from __future__ import annotations

from collections.abc import Sequence

from .types import DYN, Type

Substitution = dict[str, Type]

_WILDCARDS = ("dyn", "any", "error")
_NULLABLE = frozenset({"null", "struct", "opaque", "optional", "timestamp", "duration"})


def assign(substitution: Substitution, given: Sequence[Type], wanted: Sequence[Type]) -> Substitution | None:
    """Return the extended substitution with which each `given` type fits the `wanted` one; None if one does not."""
    if len(given) != len(wanted):
        return None
    trial = dict(substitution)
    for one, other in zip(given, wanted, strict=True):
        if not _fits(trial, one, other):
            return None
    return trial


def resolve(substitution: Substitution, type: Type, *, free_to_dyn: bool = False) -> Type:
    """Return `type` with its parameters replaced; those that are still free become dyn if `free_to_dyn`."""
    if type.kind == "param":
        bound = substitution.get(type.name)
        if bound is not None:
            return resolve(substitution, bound, free_to_dyn=free_to_dyn)
        return DYN if free_to_dyn else type
    if not type.parameters:
        return type
    parameters = tuple(resolve(substitution, one, free_to_dyn=free_to_dyn) for one in type.parameters)
    if all(new is old for new, old in zip(parameters, type.parameters, strict=True)):
        return type
    return Type(type.kind, type.name, parameters, most=type.most, decode=type.decode, list_keys=type.list_keys)


def most_general(one: Type, other: Type) -> Type:
    """Return the less specific of two types that fit each other."""
    return one if _is_no_more_specific(one, other) else other


def _is_no_more_specific(one: Type, other: Type) -> bool:
    if one.kind in ("dyn", "any", "param"):
        return True
    if other.kind in ("dyn", "any", "param") or one.kind != other.kind:
        return False
    if one.kind == "type":
        return True
    if one.parameters:
        return one.name == other.name and all(map(_is_no_more_specific, one.parameters, other.parameters))
    return one == other


def _fits(substitution: Substitution, given: Type, wanted: Type) -> bool:
    """Return whether `given` may be used as `wanted`; extends the substitution in place."""
    if wanted.kind == "param":
        valid, is_bound = _bind(substitution, given, wanted)
        if valid or is_bound:
            return valid
    if given.kind == "param":
        return _bind(substitution, wanted, given)[0]
    if given.kind in _WILDCARDS or wanted.kind in _WILDCARDS:
        return True
    if given.kind == "null":
        return wanted.kind in _NULLABLE
    if given.kind != wanted.kind:
        return False
    if given.kind == "type":
        return True
    if given.kind in ("struct", "opaque") and given.name != wanted.name:
        return False
    return len(given.parameters) == len(wanted.parameters) and all(
        _fits(substitution, one, other) for one, other in zip(given.parameters, wanted.parameters, strict=True)
    )


def _bind(substitution: Substitution, type: Type, param: Type) -> tuple[bool, bool]:
    """Bind `param` to `type`. Returns whether that is valid, and whether `param` was bound before."""
    bound = substitution.get(param.name)
    if bound is not None:
        if type == bound:
            return True, True
        if _fits(substitution, type, bound):
            substitution[param.name] = most_general(type, bound)
            return True, True
        return False, True
    if _occurs(substitution, param, type):
        return type == param, False
    substitution[param.name] = type
    return True, False


def _occurs(substitution: Substitution, param: Type, within: Type) -> bool:
    """Return whether `param` is a part of `within`: a type that contains itself would be infinite."""
    if param == within:
        return True
    if within.kind == "param":
        bound = substitution.get(within.name)
        return bound is not None and _occurs(substitution, param, bound)
    return any(_occurs(substitution, param, one) for one in within.parameters)
