"""Comparison of rules: the permissions of some rules that others do not include.

Rules are broken down into permissions: one verb for one resource of one group, for one name or for all; or one verb
for one URL. A permission is held when one of the holder's rules includes it. A few kilobytes of rules can have
billions of permissions, so both the comparisons and the permissions that are returned are bounded.

Pure: no I/O, no clock, no randomness. Source: Kubernetes component-helpers/auth/rbac/validation/policy_comparator.go,
pkg/registry/rbac/validation/policy_compact.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product

from .rules import ALL, Rule, url_includes

# Comparisons of one rule with another, of a microsecond each. Rules that are not compared by then count as missing.
MAX_COMPARISONS = 500_000
MAX_MISSING = 1000


def find_missing(held: Iterable[Rule], wanted: Iterable[Rule]) -> list[Rule]:
    """Return the permissions of `wanted` that `held` does not include, at most `MAX_MISSING`; []: all are included."""
    holder = _Holder(held)
    missing: list[Rule] = []
    for rule in dict.fromkeys(wanted):
        if holder.includes(rule):
            continue
        for permission in _break_down(rule):
            if not holder.includes(permission):
                missing.append(permission)
                if len(missing) >= MAX_MISSING:
                    return missing
    return missing


class _Holder:
    """Held rules by their resources."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._comparisons = 0
        self._by_resource: dict[str, list[Rule]] = {}
        self._with_urls: list[Rule] = []
        for rule in dict.fromkeys(rules):
            for resource in dict.fromkeys(rule.resources):
                self._by_resource.setdefault(resource, []).append(rule)
            if rule.urls:
                self._with_urls.append(rule)

    def includes(self, wanted: Rule) -> bool:
        """Whether one of the rules includes all permissions of `wanted`."""
        return any(self._compare(one, wanted) for one in self._candidates(wanted))

    def _candidates(self, wanted: Rule) -> Iterator[Rule]:
        if not wanted.resources:
            yield from self._with_urls
            return
        yield from self._by_resource.get(ALL, ())
        if wanted.resources[0] != ALL:
            yield from self._by_resource.get(wanted.resources[0], ())

    def _compare(self, held: Rule, wanted: Rule) -> bool:
        self._comparisons += 1
        return self._comparisons <= MAX_COMPARISONS and _includes(held, wanted)


def count_permissions(rules: Iterable[Rule]) -> int:
    """Return the number of permissions of rules, which may be billions."""
    return sum(
        len(rule.verbs) * (len(rule.groups) * len(rule.resources) * max(1, len(rule.names)) + len(rule.urls))
        for rule in rules
    )


def compact(rules: Iterable[Rule]) -> list[Rule]:
    """Join rules for one resource of one group that differ only in their verbs."""
    joined: list[Rule] = []
    verbs: dict[tuple[str, str], list[str]] = {}
    for rule in rules:
        if rule.names or rule.urls or len(rule.groups) != 1 or len(rule.resources) != 1:
            joined.append(rule)
        else:
            verbs.setdefault((rule.groups[0], rule.resources[0]), []).extend(rule.verbs)
    return joined + [Rule(tuple(all_verbs), (group,), (resource,)) for (group, resource), all_verbs in verbs.items()]


def describe_missing(missing: Iterable[Rule]) -> str:
    """Return missing permissions as a refusal lists them, one rule a line."""
    return "\n".join(sorted({str(rule) for rule in compact(missing)}))


def _break_down(rule: Rule) -> Iterator[Rule]:
    for group, resource, verb in product(rule.groups, rule.resources, rule.verbs):
        for name in rule.names or (None,):
            yield Rule((verb,), (group,), (resource,), () if name is None else (name,))
    for url, verb in product(rule.urls, rule.verbs):
        yield Rule((verb,), urls=(url,))


def _includes(held: Rule, wanted: Rule) -> bool:
    """Whether one rule includes all permissions of another."""
    return (
        _has_all(held.verbs, wanted.verbs)
        and _has_all(held.groups, wanted.groups)
        and _has_all(held.resources, wanted.resources)
        and (not held.names or (bool(wanted.names) and set(wanted.names) <= set(held.names)))
        and all(any(url_includes(url, path) for url in held.urls) for path in wanted.urls)
    )


def _has_all(held: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    if len(wanted) == 1:
        return wanted[0] in held or ALL in held
    return ALL in held or set(wanted) <= set(held)
