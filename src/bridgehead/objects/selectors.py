"""Label and field selectors: parsed once, then matched against plain mappings.

Pure: no I/O, no clock, no randomness. Source: Kubernetes "Labels and Selectors" and "Field Selectors".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from .integers import parse_integer
from .meta import LabelSelector
from .names import check_label_value, check_qualified_name

Labels = Mapping[str, str]


@dataclass(frozen=True)
class Requirement:
    """One term of a selector. `operator`: in, notin, exists, !, gt, lt."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Labels) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value is not None and value in self.values
            case "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
        bound, number = parse_integer(next(iter(self.values))), parse_integer(value or "")
        if bound is None or number is None:
            return False
        return number > bound if self.operator == "gt" else number < bound


@dataclass(frozen=True)
class Selector:
    """Requirements that must all hold. A selector without any selects everything."""

    requirements: tuple[Requirement, ...] = ()
    selects_nothing: bool = False

    @property
    def selects_everything(self) -> bool:
        return not self.requirements and not self.selects_nothing

    def matches(self, labels: Labels) -> bool:
        return not self.selects_nothing and all(r.matches(labels) for r in self.requirements)


EVERYTHING = Selector()
NOTHING = Selector(selects_nothing=True)

_TOKEN = re.compile(r"\s*(==|!=|=|!|\(|\)|,|>|<|[^\s=!(),<>]+)")
_OPERATORS = {"=": "in", "==": "in", "!=": "notin", ">": "gt", "<": "lt"}


def parse_label_selector(text: str) -> Selector:
    """Parse `a=b,c!=d,e in (f,g),h notin (i),j,!k`. Raises ValueError with the reason."""
    tokens = _tokenize(text)
    requirements: list[Requirement] = []
    while tokens:
        requirements.append(_parse_requirement(tokens))
        if tokens and tokens.pop(0) != ",":
            raise ValueError(f"unable to parse requirement: expected ',' between the terms of {text!r}")
        if text.rstrip().endswith(",") and not tokens:
            raise ValueError(f"unable to parse requirement: {text!r} ends with ','")
    return Selector(tuple(requirements))


def _tokenize(text: str) -> list[str]:
    tokens, position = [], 0
    text = text.rstrip()
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise ValueError(f"unable to parse requirement: {text!r} at {position}")
        tokens.append(found.group(1))
        position = found.end()
    return tokens


def _parse_requirement(tokens: list[str]) -> Requirement:
    if tokens[0] in ("=", "==", "!=", ">", "<", "(", ")"):
        raise ValueError(f"found '{tokens[0]}', expected: !, identifier, or 'end of string'")
    if tokens[0] == "!":
        tokens.pop(0)
        return Requirement(_parse_key(tokens), "!")
    key = _parse_key(tokens)
    if not tokens or tokens[0] == ",":
        return Requirement(key, "exists")
    operator = tokens.pop(0)
    if operator in _OPERATORS:
        value = tokens.pop(0) if tokens and tokens[0] != "," else ""
        name = _OPERATORS[operator]
        if name in ("gt", "lt"):
            if parse_integer(value) is None:
                raise ValueError(f"unable to parse requirement: for 'Gt', 'Lt' operators, {value!r} must be an integer")
        else:
            _check(check_label_value(value), value)
        return Requirement(key, name, frozenset([value]))
    if operator in ("in", "notin"):
        return Requirement(key, operator, frozenset(_parse_values(tokens)))
    raise ValueError(f"unable to parse requirement: found '{operator}', expected: in, notin, =, ==, !=, gt, lt")


def _parse_key(tokens: list[str]) -> str:
    if not tokens:
        raise ValueError("unable to parse requirement: found '', expected: identifier")
    key = tokens.pop(0)
    _check(check_qualified_name(key), key)
    return key


def _parse_values(tokens: list[str]) -> list[str]:
    if not tokens or tokens.pop(0) != "(":
        raise ValueError("unable to parse requirement: expected '(' after in or notin")
    values, expecting = [], True
    while tokens:
        token = tokens.pop(0)
        if token == ")":
            if expecting:
                values.append("")
            for value in values:
                _check(check_label_value(value), value)
            return values
        if token == ",":
            if expecting:
                values.append("")
            expecting = True
        else:
            values.append(token)
            expecting = False
    raise ValueError("unable to parse requirement: found '', expected: ')'")


def _check(errors: list[str], value: str) -> None:
    if errors:
        raise ValueError(f"unable to parse requirement: {value!r}: {errors[0]}")


def parse_field_selector(text: str) -> Selector:
    """Parse `status.phase=Running,spec.nodeName!=a`. Raises ValueError with the reason."""
    requirements = []
    for term in filter(None, text.split(",")):
        found = re.fullmatch(r"([^=!]+)(==|!=|=)(.*)", term)
        if found is None:
            raise ValueError(f"invalid selector: {text!r}; can't understand {term!r}")
        key, operator, value = found.groups()
        requirements.append(Requirement(key.strip(), _OPERATORS[operator], frozenset([value.strip()])))
    return Selector(tuple(requirements))


def compile_selector(selector: LabelSelector | None) -> Selector:
    """Compile an object's `LabelSelector`. None selects nothing, an empty one everything. Raises ValueError."""
    if selector is None:
        return NOTHING
    requirements = [Requirement(k, "in", frozenset([v])) for k, v in sorted(selector.match_labels.items())]
    operators = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
    for expression in selector.match_expressions:
        if expression.operator not in operators:
            raise ValueError(f"{expression.operator!r} is not a valid label selector operator")
        requirements.append(Requirement(expression.key, operators[expression.operator], frozenset(expression.values)))
    return Selector(tuple(requirements))
