"""Accepted names of definitions: two definitions of a group cannot have the same name or kind.

Pure: no I/O, no clock, no randomness.
Source: apiextensions-apiserver/pkg/controller: status/naming_controller.go, establish/establishing_controller.go.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared.conditions import find_condition

from .conversion_validation import has_bad_bundle
from .definitions import ESTABLISHED, NAMES_ACCEPTED, is_true, make_condition

_INSTALLING = make_condition(
    ESTABLISHED, is_true=False, reason="Installing", message="the initial names have been accepted"
)
_NOT_ACCEPTED = make_condition(ESTABLISHED, is_true=False, reason="NotAccepted", message="not all names are accepted")
_IS_ESTABLISHED = make_condition(
    ESTABLISHED, is_true=True, reason="InitialNamesAccepted", message="the initial names have been accepted"
)
_INVALID_CA_BUNDLE = make_condition(
    ESTABLISHED, is_true=False, reason="InvalidCABundle", message="The conversion webhook CABundle is invalid"
)
_NO_CONFLICTS = make_condition(NAMES_ACCEPTED, is_true=True, reason="NoConflicts", message="no conflicts found")


class Naming(NamedTuple):
    """The names that a definition gets, and its conditions NamesAccepted and Established."""

    accepted: JsonObject
    conditions: tuple[JsonObject, JsonObject]


def decide_names(crd: JsonObject, others: Iterable[JsonObject]) -> Naming:
    """Decide about the names of a definition. `others` are the other definitions of its group.

    A name that another definition has is left out, and the reason of the condition names it. The last conflict counts.
    """
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        names = _accepted(other)
        resources |= {names.get("plural", ""), names.get("singular", ""), *names.get("shortNames", ())}
        kinds |= {names.get("kind", ""), names.get("listKind", "")}
    wanted, held = crd["spec"]["names"], _accepted(crd)
    accepted = dict(held)
    conflict: tuple[str, str] | None = None

    def claim(name: str, taken: set[str], reason: str) -> None:
        nonlocal conflict
        value = wanted.get(name, "")
        if value != held.get(name, "") and value in taken:
            conflict = reason, _in_use(value)
        else:
            accepted[name] = value

    claim("plural", resources, "PluralConflict")
    claim("singular", resources, "SingularConflict")
    short_names: list[str] = wanted.get("shortNames", [])
    if short_names != held.get("shortNames", []):
        own = {*held.get("shortNames", ()), held.get("plural"), held.get("singular")}
        clashes = [name for name in short_names if name not in own and name in resources]
        if clashes:
            texts = list(dict.fromkeys(map(_in_use, clashes)))
            conflict = "ShortNamesConflict", texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        else:
            _set(accepted, "shortNames", short_names)
    claim("kind", kinds, "KindConflict")
    claim("listKind", kinds, "ListKindConflict")
    _set(accepted, "categories", wanted.get("categories"))
    if conflict is None:
        names_accepted = _NO_CONFLICTS
    else:
        names_accepted = make_condition(NAMES_ACCEPTED, is_true=False, reason=conflict[0], message=conflict[1])
    established = find_condition(crd.get("status", {}).get("conditions"), ESTABLISHED) or _NOT_ACCEPTED
    if established.get("status") != "True" and conflict is None:
        established = _INSTALLING
    return Naming(accepted, (names_accepted, established))


def establish(crd: JsonObject) -> JsonObject:
    """Return the condition Established of a definition whose names are accepted."""
    if has_bad_bundle(crd) and not is_true(crd, ESTABLISHED):
        return _INVALID_CA_BUNDLE
    return _IS_ESTABLISHED


def _accepted(crd: JsonObject) -> JsonObject:
    names: JsonObject = crd.get("status", {}).get("acceptedNames") or {}
    return names


def _in_use(name: str) -> str:
    return f"{json.dumps(name, ensure_ascii=False)} is already in use"


def _set(names: JsonObject, name: str, value: Any) -> None:
    if value:
        names[name] = value
    else:
        names.pop(name, None)
