"""Alternatives of a schema: anyOf, oneOf, allOf, not.

If all alternatives fail, the errors of the one are shown of which most parts passed.

Pure: no I/O, no clock, no randomness. Source: kube-openapi/pkg/validation/validate/schema_props.go.
"""

from __future__ import annotations

from typing import Any

from . import errors as words
from .errors import Check, Report
from .paths import Path, dotted


def any_of(checks: list[Check]) -> Check:
    """Return the check that at least one of `checks` passes."""

    def step(value: Any, old: Any, path: Path, errors: Report) -> int:
        best = errors.fork()
        highest = -1
        for check in checks:
            found = errors.fork()
            count = check(value, old, path, found)
            if not found:
                return count
            if count > highest:
                best, highest = found, count
        errors.append(words.failed_choice(dotted(path), "validate at least one schema (anyOf)"))
        errors += best
        return highest

    return step


def one_of(checks: list[Check]) -> Check:
    """Return the check that exactly one of `checks` passes."""

    def step(value: Any, old: Any, path: Path, errors: Report) -> int:
        best = errors.fork()
        highest = passed = first = 0
        for check in checks:
            found = errors.fork()
            count = check(value, old, path, found)
            if not found:
                first = first if passed else count
                passed += 1
            elif not passed and (not best or count > highest):
                best, highest = found, count
        if passed == 1:
            return first
        why = f"Found {passed} valid alternatives" if passed else "Found none valid"
        errors.append(words.failed_choice(dotted(path), f"validate one and only one schema (oneOf). {why}"))
        if passed:
            return 0
        errors += best
        return highest

    return step


def all_of(checks: list[Check]) -> Check:
    """Return the check that all of `checks` pass."""

    def step(value: Any, old: Any, path: Path, errors: Report) -> int:
        count = passed = 0
        for check in checks:
            before = len(errors)
            count += check(value, old, path, errors)
            passed += len(errors) == before
        if passed != len(checks):
            none = "" if passed else ". None validated"
            errors.append(words.failed_choice(dotted(path), f"validate all the schemas (allOf){none}"))
        return count

    return step


def forbid(check: Check) -> Check:
    """Return the check that `check` does not pass."""

    def step(value: Any, old: Any, path: Path, errors: Report) -> int:
        found = errors.fork()
        check(value, old, path, found)
        if not found:
            errors.append(words.failed_choice(dotted(path), "not validate the schema (not)"))
        return 0

    return step
