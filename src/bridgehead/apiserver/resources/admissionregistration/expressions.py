"""Validation of the expressions of match conditions and policies. CEL is imported with the first expression.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/apis/admissionregistration/validation`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resources.shared import field

if TYPE_CHECKING:
    from bridgehead.apiserver.cel.types import Type


class Expressions:
    """The expressions of one policy: which variables they can use, and what they must return."""

    def __init__(self, *, has_params: bool, has_variables: bool = False, can_patch: bool = False) -> None:
        self._has_params = has_params
        self._can_patch = can_patch
        self._variables: dict[str, Type] | None = {} if has_variables else None

    def add_variable(self, path: str, name: str, expression: str) -> list[FieldError]:
        """Compile a variable, which later expressions can use."""
        problem, is_internal, found = self._compile(expression, ())
        if found is not None and self._variables is not None:
            self._variables[name] = found
        return _errors(path, expression, problem, is_internal=is_internal)

    def check(
        self, path: str, expression: str, results: tuple[str, ...], *, has_authorizer: bool = True, shown: str = ""
    ) -> list[FieldError]:
        """Return an error unless the expression compiles to a value of one of the types `results`.

        `results` are names of types, `Object` or `list(JSONPatch)`. Errors show the expression, or `shown` instead.
        """
        problem, is_internal, _ = self._compile(expression, results, has_authorizer=has_authorizer)
        return _errors(path, shown or expression, problem, is_internal=is_internal)

    def _compile(
        self, expression: str, results: tuple[str, ...], *, has_authorizer: bool = True
    ) -> tuple[str, bool, Type | None]:
        """Return why the expression does not compile, or "", whether the error is internal, and the value's type."""
        from bridgehead.apiserver.cel import CompileError, ProgramError
        from bridgehead.apiserver.cel.admission import admission_environment

        environment = admission_environment(
            has_params=self._has_params,
            has_authorizer=has_authorizer,
            can_patch=self._can_patch,
            variables=self._variables,
        )
        try:
            program = environment.compile(expression, result=_types(results) or None)
        except CompileError as error:
            return str(error), isinstance(error, ProgramError), None
        return "", False, program.result


def _errors(path: str, shown: str, problem: str, *, is_internal: bool) -> list[FieldError]:
    """Return the errors of an expression. As in Kubernetes, constants that cannot be converted are internal errors."""
    if not problem:
        return []
    return [field.internal(path, problem) if is_internal else field.invalid(path, shown, problem)]


def _types(names: tuple[str, ...]) -> tuple[Type, ...]:
    from bridgehead.apiserver.cel.admission import APPLY_CONFIGURATION, JSON_PATCHES
    from bridgehead.apiserver.cel.types import parse_type

    special: Mapping[str, Type] = {"Object": APPLY_CONFIGURATION, "list(JSONPatch)": JSON_PATCHES}
    return tuple(special[name] if name in special else parse_type(name) for name in names)


def check_match_condition(path: str, expression: str, *, has_params: bool = False) -> list[FieldError]:
    """Return an error unless a match condition compiles."""
    return Expressions(has_params=has_params).check(path, expression, ("bool",))
