"""Sets of paths: FieldsV1 and the algebra."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.apiserver.fieldmanagement.fieldset import (
    FieldSet,
    contains,
    difference,
    has,
    in_order,
    intersection,
    parse_fields,
    paths,
    union,
    without,
)
from bridgehead.apiserver.fieldmanagement.managers import reset_paths
from bridgehead.apiserver.fieldmanagement.path_steps import key_step, parse_step, path_text, value_step

Paths = frozenset[tuple[str, ...]]

_STEPS = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'k:{"name":"y"}', 'v:"1"', "v:2"])
_PATHS = st.frozensets(st.lists(_STEPS, min_size=1, max_size=4).map(tuple), max_size=8)


def build(members: Paths) -> FieldSet:
    """Return the set with these members, built without the module's own algebra."""
    root: FieldSet = {}
    for path in sorted(members):
        node = root
        for step in path:
            node = node.setdefault(step, {})
        node["."] = {}

    def simplified(node: FieldSet) -> FieldSet:
        if node == {".": {}}:
            return {}
        return {step: {} if step == "." else simplified(child) for step, child in node.items()}

    return simplified(root)


def members(fields: FieldSet) -> Paths:
    return frozenset(paths(fields))


@given(_PATHS)
def test_a_set_has_its_members(some):
    fields = build(some)
    assert members(fields) == some
    assert all(has(fields, path) for path in some)
    assert members(in_order(fields)) == some
    assert parse_fields(in_order(fields)) == fields


@given(_PATHS, _PATHS)
def test_the_algebra_is_that_of_sets_of_paths(one, other):
    a, b = build(one), build(other)
    assert members(union(a, b)) == one | other
    assert members(difference(a, b)) == one - other
    assert members(intersection(a, b)) == one & other
    below = {path for path in one if any(path[: len(prefix)] == prefix for prefix in other)}
    assert members(without(a, b)) == one - below
    assert contains(a, b) == (other <= one)


@given(_PATHS, _PATHS)
def test_results_are_canonical_and_share_what_stays_the_same(one, other):
    a, b = build(one), build(other)
    assert union(a, b) == build(one | other)
    assert difference(a, b) == build(one - other)
    assert intersection(a, b) == build(one & other)
    if not one & other:
        assert difference(a, b) is a


@given(_PATHS, _PATHS)
def test_no_operation_changes_its_arguments(one, other):
    a, b = build(one), build(other)
    for operation in (union, difference, intersection, without):
        operation(a, b)
    assert (a, b) == (build(one), build(other))


def test_order_of_steps():
    mixed = {"f:b": {}, ".": {}, "f:a": {}}
    assert list(in_order({"f:x": mixed})["f:x"]) == [".", "f:a", "f:b"]
    ports = {key_step({"port": port, "protocol": "TCP"}): {} for port in (443, 80, 8080)}
    assert list(in_order(ports)) == [
        'k:{"port":80,"protocol":"TCP"}',
        'k:{"port":443,"protocol":"TCP"}',
        'k:{"port":8080,"protocol":"TCP"}',
    ]
    assert list(in_order({'v:"b"': {}, ".": {}, "v:10": {}, "v:9": {}})) == [".", "v:9", "v:10", 'v:"b"']


@pytest.mark.parametrize(
    ("given_step", "step"),
    [
        ("f:name", "f:name"),
        ('k:{"protocol":"TCP","containerPort": 80}', 'k:{"containerPort":80,"protocol":"TCP"}'),
        ('k:{"name":"a<b"}', 'k:{"name":"a\\u003cb"}'),
        ('k:{"name":"a\\u003cb"}', 'k:{"name":"a\\u003cb"}'),
        ('v:"x"', 'v:"x"'),
        ("v: true", "v:true"),
        ("i:3", "i:3"),
        (".", "."),
    ],
)
def test_steps_from_clients(given_step, step):
    assert parse_step(given_step) == step


@pytest.mark.parametrize("wrong", ["", "name", "x:y", "k:[]", "k:{", "v:", "i:one"])
def test_wrong_steps_are_refused(wrong):
    with pytest.raises(ValueError, match="unknown path element"):
        parse_fields({wrong: {}})


def test_fields_that_are_no_object_are_refused():
    with pytest.raises(ValueError, match="must be an object"):
        parse_fields({"f:a": []})


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("f:spec", "f:replicas"), ".spec.replicas"),
        (
            ("f:spec", "f:ports", key_step({"port": 80, "protocol": "TCP"}), "f:nodePort"),
            '.spec.ports[port=80,protocol="TCP"].nodePort',
        ),
        (("f:metadata", "f:finalizers", value_step("x/y")), '.metadata.finalizers[="x/y"]'),
        (("f:list", "i:2"), ".list[2]"),
        (("f:flags", value_step(True)), ".flags[=true]"),
    ],
)
def test_texts_of_paths(path, text):
    assert path_text(path) == text


def test_members_come_in_the_order_of_messages():
    fields = {"f:b": {"f:y": {}, "f:x": {}}, "f:a": {".": {}, "f:z": {}}}
    assert [path_text(path) for path in paths(fields)] == [".a", ".a.z", ".b.x", ".b.y"]


def test_reset_paths():
    assert reset_paths("spec", "metadata.labels") == {"f:spec": {}, "f:metadata": {"f:labels": {}}}
