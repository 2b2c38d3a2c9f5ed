"""Comparison of rules: the permissions that others do not include."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.apiserver.resources.rbac import covering
from bridgehead.apiserver.resources.rbac.covering import compact, describe_missing, find_missing
from bridgehead.apiserver.resources.rbac.rules import Rule

READ = ("get", "list", "watch")


def pods(*verbs, names=()):
    return Rule(verbs, ("",), ("pods",), names)


def url(path, *verbs):
    return Rule(verbs or ("get",), urls=(path,))


@pytest.mark.parametrize(
    ("held", "wanted", "missing"),
    [
        ([], [], []),
        ([pods(*READ)], [pods("get")], []),
        ([pods("get")], [pods(*READ)], [pods("list"), pods("watch")]),
        # A rule need not be included as a whole by a single one.
        ([pods("get"), pods("list"), pods("watch")], [pods(*READ)], []),
        ([Rule(("*",), ("*",), ("*",))], [Rule(("get", "x"), ("a.io",), ("b", "c/d"), ("e",))], []),
        ([Rule(("*",), ("*",), ("*",))], [url("/a")], [url("/a")]),
        ([pods("get", names=("a",))], [pods("get")], [pods("get")]),
        ([pods("get")], [pods("get", names=("a",))], []),
        ([pods("get", names=("a",))], [pods("get", names=("a", "b"))], [pods("get", names=("b",))]),
        # "*" is a permission of its own: all single ones together do not include it.
        ([Rule(READ, ("",), ("pods",))], [pods("*")], [pods("*")]),
        ([Rule(("get",), ("",), ("*/scale",))], [Rule(("get",), ("",), ("a/scale",))],
         [Rule(("get",), ("",), ("a/scale",))]),
        ([url("/api/*")], [url("/api/v1"), url("/api/*"), url("/apis")], [url("/apis")]),
        ([url("*")], [url("/a"), url("/a/*")], []),
    ],
)  # fmt: skip
def test_missing_permissions(held, wanted, missing):
    assert find_missing(held, wanted) == missing


values = st.lists(st.sampled_from(["a", "b", "*"]), min_size=1, max_size=2).map(tuple)
rules = st.lists(st.builds(Rule, values, values, values, st.just(()) | values), max_size=4)


@given(rules, rules)
def test_what_is_not_missing_is_allowed(held, wanted):
    """A holder that lacks nothing of some rules may do what they allow."""
    if find_missing(held, wanted):
        return
    for verb, group, resource, name in product("ab", "ab", "ab", ("a", "")):
        if any(rule.allows(verb, group, resource, "", name) for rule in wanted):
            assert any(rule.allows(verb, group, resource, "", name) for rule in held)


@given(rules)
def test_rules_include_themselves(held):
    assert find_missing(held, held) == []


def test_rules_for_one_resource_are_joined_for_a_refusal():
    named = pods("get", names=("a",))
    missing = [pods("get"), Rule(("get",), ("apps",), ("deployments",)), pods("list"), named, url("/a")]
    assert compact(missing) == [named, url("/a"), pods("get", "list"), Rule(("get",), ("apps",), ("deployments",))]
    assert describe_missing(missing) == (
        '{APIGroups:[""], Resources:["pods"], ResourceNames:["a"], Verbs:["get"]}\n'
        '{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}\n'
        '{APIGroups:["apps"], Resources:["deployments"], Verbs:["get"]}\n'
        '{NonResourceURLs:["/a"], Verbs:["get"]}'
    )


def test_rules_with_billions_of_permissions_are_refused_in_bounded_time(monkeypatch):
    many = tuple(f"x{i}" for i in range(2000))
    huge = Rule(many, many, many, many)
    assert len(find_missing([], [huge])) == covering.MAX_MISSING
    assert find_missing([huge], [huge]) == []
    # Every permission is included, by another rule each: the comparisons end, and the rest counts as missing.
    monkeypatch.setattr(covering, "MAX_COMPARISONS", 1000)
    some = many[:200]
    held = [Rule((verb,), some, some) for verb in some]
    assert find_missing(held, [Rule(some, some, some)])
