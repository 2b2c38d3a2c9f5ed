"""Validation of the expressions of match conditions and policies. CEL is imported with the first expression.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/apis/admissionregistration/validation`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from bridgehead.apiserver.field import Field

if TYPE_CHECKING:
    from bridgehead.apiserver.cel.types import Type


class Expressions:
    """The expressions of one policy: which variables they can use, and what they must return."""

    def __init__(self, *, has_params: bool, has_variables: bool = False, can_patch: bool = False) -> None:
        self._has_params = has_params
        self._can_patch = can_patch
        self._variables: dict[str, Type] | None = {} if has_variables else None

    def add_variable(self, name: str, expression: Field) -> None:
        """Compile a variable, which later expressions can use, or add an error."""
        found = self._compile(expression, expression.value, ())
        if found is not None and self._variables is not None:
            self._variables[name] = found

    def validate(
        self, expression: Field, results: tuple[str, ...], *, text: str = "", has_authorizer: bool = True
    ) -> None:
        """Add an error unless the expression compiles to a value of one of the types `results`.

        `results` are names of types, `Object` or `list(JSONPatch)`. `text` is compiled instead of the field's value.
        """
        self._compile(expression, text or expression.value, results, has_authorizer=has_authorizer)

    def _compile(
        self, expression: Field, text: str, results: tuple[str, ...], *, has_authorizer: bool = True
    ) -> Type | None:
        """Return the type of an expression's value, or add an error."""
        if not text.strip():
            expression.required("expression is not specified")
            return None
        from bridgehead.apiserver.cel import CompileError, ProgramError
        from bridgehead.apiserver.cel.admission_environments import admission_environment

        environment = admission_environment(
            has_params=self._has_params,
            has_authorizer=has_authorizer,
            can_patch=self._can_patch,
            variables=self._variables,
        )
        try:
            return environment.compile(text, result=_types(results) or None).result
        except ProgramError as error:
            expression.internal(str(error))  # as in Kubernetes: constants that cannot be converted
        except CompileError as error:
            expression.invalid(str(error))
        return None


def _types(names: tuple[str, ...]) -> tuple[Type, ...]:
    from bridgehead.apiserver.cel.admission_environments import APPLY_CONFIGURATION, JSON_PATCHES
    from bridgehead.apiserver.cel.types import parse_type

    special: Mapping[str, Type] = {"Object": APPLY_CONFIGURATION, "list(JSONPatch)": JSON_PATCHES}
    return tuple(special[name] if name in special else parse_type(name) for name in names)


def validate_match_condition(expression: Field, *, has_params: bool = False) -> None:
    """Add an error unless a match condition compiles."""
    Expressions(has_params=has_params).validate(expression, ("bool",))
