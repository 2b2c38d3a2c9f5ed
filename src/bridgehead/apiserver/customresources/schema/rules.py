"""CEL rules of custom resources (`x-kubernetes-validations`), evaluated for objects.

The rules of a schema are compiled when the first value of that schema is validated. All rules of a request share one
budget; what exceeds it ends validation with an error.

Pure: no I/O, no clock, no randomness.
Source: apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go, compilation.go; KEP-2876, KEP-4008.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from bridgehead.apiserver.cel import REQUEST_BUDGET, Budget, BudgetExceeded, CostLimitExceeded, EvaluationError
from bridgehead.apiserver.cel.values import NONE, Optional
from bridgehead.apiserver.field import Field, FieldError
from bridgehead.apiserver.resource import JsonObject

from .errors import MAX_ERRORS, Errors, at_fields, quote
from .node import Node
from .paths import child, key
from .ratcheting import ABSENT, correlation, is_unchanged
from .rule_programs import CompiledRule, compile_node

_MOST_MESSAGE_BYTES = 5 * 1024
_NO_BUDGET = "evaluation failed due to running out of cost budget, no further validation rules will be run"


class _Stop(Exception):
    """No further rules are evaluated."""


class _Old(NamedTuple):
    """The old value of a value, and the nearest part around it that has an old value: its schema, old and new.

    `value` is ABSENT for a value without an old one. `part` is None where a rule must hold even if nothing changed.
    """

    value: Any
    part: tuple[Node, Any, Any] | None

    def below(self, node: Node, old: Any, new: Any) -> _Old:
        """Return the old value of a part of this value."""
        if old is ABSENT:
            return _Old(ABSENT, self.part)
        return _Old(old, None if self.part is None else (node, old, new))


class Validator:
    """The rules of a schema and of all schemas inside."""

    def __init__(self, node: Node, *, is_root: bool) -> None:
        self._node = node
        self._is_root = is_root
        self._rules: list[CompiledRule] | None = None
        self._fields = {name: Validator(below, is_root=below.is_embedded) for name, below in _with_rules(node)}
        self._items = _below(node.items)
        self._values = _below(node.additional)

    def validate(self, obj: JsonObject, old: JsonObject | None) -> list[FieldError]:
        """Return the errors of rules that fail; errors of parts that did not change are warnings."""
        start = _Old(ABSENT, None) if old is None else _Old(old, (self._node, old, obj))
        return self._run(obj, start, "")

    def validate_default(self, default: Any, path: str) -> list[FieldError]:
        """Return the errors of rules that fail for a default value, which is its own old value."""
        return self._run(default, _Old(default, None), path)

    def _run(self, value: Any, old: _Old, path: str) -> list[FieldError]:
        errors: Errors = []
        with suppress(_Stop):
            self._validate(value, old, path, _Run(Budget(REQUEST_BUDGET), errors))
        return at_fields(errors)

    def _validate(self, value: Any, old: _Old, path: str, run: _Run) -> None:
        if value is None:
            return
        if self._rules is None:
            self._rules = compile_node(self._node, is_root=self._is_root)
        if self._rules:
            run.evaluate(self._rules, self._node, value, old, path)
        if type(value) is dict:
            self._validate_fields(value, old, path, run)
        elif type(value) is list and self._items is not None:
            old_item, items = correlation(self._node, old.value), self._items
            for index, item in enumerate(value):
                items._validate(item, old.below(items._node, old_item(item), item), f"{path}[{index}]", run)

    def _validate_fields(self, value: dict[str, Any], old: _Old, path: str, run: _Run) -> None:
        olds = old.value if type(old.value) is dict else {}
        for name, item in value.items():
            validator, where = self._fields.get(name), ""
            if validator is not None:
                where = child(path, name)
            elif self._values is not None and name not in self._node.properties:
                validator, where = self._values, key(path, name)
            if validator is not None:
                below = old.below(validator._node, olds.get(name, ABSENT), item)
                if not path and name in ("apiVersion", "kind"):
                    below = _Old(below.value, None)  # both objects were converted to one version
                validator._validate(item, below, where, run)


def _with_rules(node: Node) -> list[tuple[str, Node]]:
    return [(name, below) for name, below in node.properties.items() if below.has_rules]


def _below(node: Node | None) -> Validator | None:
    return None if node is None or not node.has_rules else Validator(node, is_root=node.is_embedded)


class _Run:
    """One validation of an object."""

    def __init__(self, budget: Budget, errors: Errors) -> None:
        self._budget = budget
        self._errors = errors
        # Items without old values have the same part around them: by its id, the part and whether it is unchanged.
        self._compared: dict[int, tuple[object, bool]] = {}

    def evaluate(self, rules: list[CompiledRule], node: Node, value: Any, old: _Old, path: str) -> None:
        """Evaluate the rules of one schema. Raises _Stop."""
        has_old = old.value is not ABSENT and old.value is not None
        kind = node.schema.get("type", "")
        for rule in rules:
            if rule.error:
                self._errors.append(Field(kind, path).invalid(f"rule compile error: {rule.error}"))
                continue
            if rule.program is None or (rule.uses_old and not has_old and not rule.is_old_optional):
                continue
            variables = {"self": value}
            if rule.is_old_optional:
                variables["oldSelf"] = Optional(rule.decoded(old.value)) if has_old else NONE
            elif has_old:
                variables["oldSelf"] = old.value
            if not self._passes(rule, variables, kind, path):
                self._fail(rule, variables, kind, value, old, path)

    def _passes(self, rule: CompiledRule, variables: dict[str, Any], kind: str, path: str) -> bool:
        """Return whether a rule holds. A rule that cannot be evaluated leaves an error and counts as one that holds."""
        try:
            return rule.program is not None and rule.program.evaluate(variables, self._budget) is True
        except BudgetExceeded:
            self._errors.append(Field(kind, path).invalid(f"validation {_NO_BUDGET.removeprefix('evaluation ')}"))
            raise _Stop from None
        except CostLimitExceeded as error:
            detail = f"'{error}': no further validation rules will be run due to call cost exceeds limit for rule"
            self._errors.append(Field(kind, path).invalid(f"{detail}: {rule.shown}"))
            raise _Stop from None
        except EvaluationError as error:
            if str(error).startswith("no such overload"):
                # int-or-string has no type that the compiler could check.
                detail = (
                    f"'{error}': call arguments did not match a supported operator, function or macro signature for"
                )
                self._errors.append(Field(kind, path).invalid(f"{detail} rule: {rule.shown}"))
            else:
                self._errors.append(Field(kind, path).invalid(f"{error} evaluating rule: {rule.shown}"))
            return True

    def _fail(self, rule: CompiledRule, variables: dict[str, Any], kind: str, value: Any, old: _Old, path: str) -> None:
        where = child(path, rule.path) if rule.path else path
        try:
            detail = self._message(rule, variables)
        except _Refused as refused:
            self._add(rule, Field(kind, where).invalid(str(refused)), old)
            raise _Stop from None
        self._add(rule, _error(rule.reason, where, value, kind in ("object", "array"), detail or rule.message), old)

    def _message(self, rule: CompiledRule, variables: dict[str, Any]) -> str:
        """Return the value of the messageExpression, "" when it has none that can be shown. Raises _Refused."""
        if rule.message_program is None:
            return ""
        try:
            text = rule.message_program.evaluate(variables, self._budget)
        except BudgetExceeded:
            raise _Refused(f"messageExpression {_NO_BUDGET}") from None
        except CostLimitExceeded:
            detail = "no further validation rules will be run due to call cost exceeds limit for messageExpression"
            raise _Refused(f"{detail}: {quote(rule.message_expression)}") from None
        except EvaluationError:
            return ""
        text = text.strip() if isinstance(text, str) else ""
        return "" if "\n" in text or len(text.encode(errors="replace")) > _MOST_MESSAGE_BYTES else text

    def _add(self, rule: CompiledRule, error: FieldError, old: _Old) -> None:
        if not rule.uses_old and old.part is not None and self._is_unchanged(old.part):
            error = replace(error, is_warning=True)
        self._errors.append(error)
        if len(self._errors) > MAX_ERRORS:
            raise _Stop

    def _is_unchanged(self, part: tuple[Node, Any, Any]) -> bool:
        known = self._compared.get(id(part))
        if known is None:
            known = self._compared[id(part)] = part, is_unchanged(*part)
        return known[1]


class _Refused(Exception):
    """A messageExpression that costs too much."""


def _error(reason: str, path: str, value: Any, is_omitted: bool, detail: str) -> FieldError:
    """Return the error of a rule. Values that are objects or lists are not shown."""
    field = Field(value, path)
    match reason:
        case "FieldValueForbidden":
            return field.forbidden(detail)
        case "FieldValueRequired":
            return field.required(detail)
        case "FieldValueDuplicate":
            return FieldError(reason, path, "Duplicate value") if is_omitted else field.duplicate()
    return field.invalid_as_whole(detail) if is_omitted else field.invalid(detail)
