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
_SYMBOLS = frozenset(("=", "==", "!=", "!", ">", "<", "(", ")", ",", ""))
_OPERATORS = {"=": "in", "==": "in", "!=": "notin", ">": "gt", "<": "lt"}


def parse_label_selector(text: str) -> Selector:
    """Parse `a=b,c!=d,e in (f,g),h notin (i),j,!k`. Raises ValueError with the reason."""
    tokens = [*_TOKEN.findall(text.rstrip()), ""]  # "" ends them
    requirements: list[Requirement] = []
    if tokens[0] in _SYMBOLS - {"!", ""}:
        raise ValueError(f"found '{tokens[0]}', expected: !, identifier, or 'end of string'")
    while tokens[0]:
        try:
            requirements.append(_parse_requirement(tokens))
        except ValueError as error:
            raise ValueError(f"unable to parse requirement: {error}") from None
        end = tokens.pop(0)
        if not end:
            break
        if end != ",":
            raise ValueError(f"found '{end}', expected: ',' or 'end of string'")
        if tokens[0] in _SYMBOLS - {"!"}:
            raise ValueError(f"found '{tokens[0]}', expected: identifier after ','")
    return Selector(tuple(requirements))


def _parse_requirement(tokens: list[str]) -> Requirement:
    if tokens[0] == "!":
        tokens.pop(0)
        return Requirement(_parse_key(tokens), "!")
    key = _parse_key(tokens)
    if tokens[0] in ("", ","):
        return Requirement(key, "exists")
    operator = tokens.pop(0)
    if operator in _OPERATORS:
        value, name = "" if tokens[0] in ("", ",") else tokens.pop(0), _OPERATORS[operator]
        if value in _SYMBOLS - {""}:
            raise ValueError(f"found '{value}', expected: identifier")
        if name in ("gt", "lt") and parse_integer(value) is None:
            why = "for 'Gt', 'Lt' operators, the value must be an integer"
            raise ValueError(f'values[0]: Invalid value: "{value}": {why}')
        _check_values(key, [value])
        return Requirement(key, name, frozenset([value]))
    if operator in ("in", "notin"):
        values = _parse_values(tokens)
        _check_values(key, values)
        return Requirement(key, operator, frozenset(values))
    raise ValueError(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")


def _parse_key(tokens: list[str]) -> str:
    key = tokens.pop(0)
    if key in _SYMBOLS:
        raise ValueError(f"found '{key}', expected: identifier")
    if errors := check_qualified_name(key):
        raise ValueError(f'<nil>: Invalid value: "{key}": {"; ".join(errors)}')
    return key


def _parse_values(tokens: list[str]) -> list[str]:
    """Parse `(a,b)`; a place without a value is "". A token "" ends `tokens`."""
    begin = tokens.pop(0)
    if begin != "(":
        raise ValueError(f"found '{begin}' expected: '('")
    if tokens[0] in _SYMBOLS - {",", ")"}:
        raise ValueError(f"found '{tokens[0]}', expected: ',', ')' or identifier")
    values, expecting = [], True
    while (token := tokens.pop(0)) != ")":
        if token == ",":
            if expecting:
                values.append("")
            expecting = True
        elif token in _SYMBOLS or not expecting:
            wanted = "',', or identifier" if expecting else "',' or ')'"
            raise ValueError(f"found '{token}', expected: {wanted}")
        else:
            values.append(token)
            expecting = False
    return [*values, ""] if expecting else values


def _check_values(key: str, values: list[str]) -> None:
    for index, value in enumerate(sorted(set(values))):
        if errors := check_label_value(value):
            raise ValueError(f'values[{index}][{key}]: Invalid value: "{value}": {"; ".join(errors)}')


_TERM = re.compile(r"(?:[^\\,]|\\.?)+")
_FIELD_TERM = re.compile(r"(.*?)(!=|==|=)(.*)", re.DOTALL)
_ESCAPES = re.compile(r"\\(.?)|([,=])", re.DOTALL)


def parse_field_selector(text: str) -> Selector:
    """Parse `status.phase=Running,spec.nodeName!=a`, with `\\,`, `\\=` and `\\\\` in values. Raises ValueError."""
    requirements = []
    for term in _TERM.findall(text):
        found = _FIELD_TERM.fullmatch(term)
        if found is None:
            raise ValueError(f"invalid selector: '{text}'; can't understand '{term}'")
        key, operator, value = found.groups()
        requirements.append(Requirement(key, _OPERATORS[operator], frozenset([_ESCAPES.sub(_unescape, value)])))
    return Selector(tuple(requirements))


def _unescape(found: re.Match[str]) -> str:
    escaped, bare = found.groups()
    if bare:
        raise ValueError(f"invalid field selector: unescaped character in value: {ord(bare)}")
    if escaped not in ("\\", ",", "="):  # also none, at the end of the value
        raise ValueError(f"invalid field selector: invalid escape sequence: \\{escaped}")
    return str(escaped)


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


def shown_selector(selector: LabelSelector | None) -> str:
    """Render a selector as Kubernetes' messages have it, which is Go's form of the struct."""
    if selector is None:
        return "nil"
    labels = "".join(f"{key}: {value}," for key, value in sorted(selector.match_labels.items()))
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{one.key},Operator:{one.operator},Values:[{' '.join(one.values)}],}},"
        for one in selector.match_expressions
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
