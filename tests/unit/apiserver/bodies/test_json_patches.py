"""JSON merge patch and JSON patch, on the examples of their specifications."""

from __future__ import annotations

import contextlib
import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.apiserver.bodies.json_patches import apply_json_patch, apply_merge_patch
from bridgehead.apiserver.errors import PatchRefused

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "a", "b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


# RFC 7386, appendix A.
@pytest.mark.parametrize(
    ("original", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patches_follow_rfc_7396(original, patch, result):
    before = copy.deepcopy((original, patch))
    assert apply_merge_patch(original, patch) == result
    assert (original, patch) == before


# RFC 6902, appendix A, and further statements of the RFC.
@pytest.mark.parametrize(
    ("original", "patch", "result"),
    [
        ({"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux"}], {"baz": "qux", "foo": "bar"}),
        (
            {"foo": ["bar", "baz"]},
            [{"op": "add", "path": "/foo/1", "value": "qux"}],
            {"foo": ["bar", "qux", "baz"]},
        ),
        ({"baz": "qux", "foo": "bar"}, [{"op": "remove", "path": "/baz"}], {"foo": "bar"}),
        ({"foo": ["bar", "qux", "baz"]}, [{"op": "remove", "path": "/foo/1"}], {"foo": ["bar", "baz"]}),
        ({"baz": "qux"}, [{"op": "replace", "path": "/baz", "value": "boo"}], {"baz": "boo"}),
        (
            {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
            [{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}],
            {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
        ),
        (
            {"foo": ["all", "grass", "cows", "eat"]},
            [{"op": "move", "from": "/foo/1", "path": "/foo/3"}],
            {"foo": ["all", "cows", "eat", "grass"]},
        ),
        (
            {"baz": "qux", "foo": ["a", 2, "c"]},
            [{"op": "test", "path": "/baz", "value": "qux"}, {"op": "test", "path": "/foo/1", "value": 2}],
            {"baz": "qux", "foo": ["a", 2, "c"]},
        ),
        (
            {"foo": "bar"},
            [{"op": "add", "path": "/child", "value": {"grandchild": {}}}],
            {"foo": "bar", "child": {"grandchild": {}}},
        ),
        ({"foo": "bar"}, [{"op": "add", "path": "/baz", "value": 1, "xyz": 123}], {"foo": "bar", "baz": 1}),
        ({"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": 10}], {"/": 9, "~1": 10}),
        ({"foo": ["bar"]}, [{"op": "add", "path": "/foo/-", "value": ["abc"]}], {"foo": ["bar", ["abc"]]}),
        (
            {"a": [1]},
            [{"op": "copy", "from": "/a", "path": "/b"}, {"op": "add", "path": "/b/0", "value": 0}],
            {"a": [1], "b": [0, 1]},
        ),
        ({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 2}}], {"b": 2}),
        ({}, [{"op": "add", "path": "/a"}], {"a": None}),
    ],
)
def test_json_patches_follow_rfc_6902(original, patch, result):
    before = copy.deepcopy((original, patch))
    assert apply_json_patch(original, patch) == result
    assert (original, patch) == before


# Cases in which the library of Kubernetes does not follow the RFCs, or for which these have no rule.
@pytest.mark.parametrize(
    ("original", "patch", "result"),
    [
        ({"foo": "bar"}, [{"op": "replace", "path": "/baz", "value": 1}], {"foo": "bar", "baz": 1}),
        ({"foo": [1, 2]}, [{"op": "replace", "path": "/foo/-1", "value": 3}], {"foo": [1, 3]}),
        ({"foo": [1, 2]}, [{"op": "add", "path": "/foo/-1", "value": 3}], {"foo": [1, 2, 3]}),
        ({"foo": [1, 2]}, [{"op": "add", "path": "/foo/-3", "value": 3}], {"foo": [3, 1, 2]}),
        ({"foo": [1, 2]}, [{"op": "remove", "path": "/foo/-2"}], {"foo": [2]}),
        ({"foo": [1]}, [{"op": "add", "path": "/foo/01", "value": 2}], {"foo": [1, 2]}),
        ({"foo": [1]}, [{"op": "test", "path": "/foo/+0", "value": 1}], {"foo": [1]}),
        ({"a": 1}, [{"op": "copy", "from": "/b", "path": "/c"}], {"a": 1, "c": None}),
        ({"a": 1}, [{"op": "test", "path": "/b", "value": None}], {"a": 1}),
        ({"a": 1}, [{"op": "test", "path": "/b"}], {"a": 1}),
        ({"a": 1}, [{"op": "test", "path": "", "value": {"a": 1}}], {"a": 1}),
        ({"a": [{"x": 1}, {}]}, [{"op": "move", "from": "/a/0", "path": "/a/0/b"}], {"a": [{"b": {"x": 1}}]}),
        ({"a": 1}, [{"op": "add", "path": "x/b", "value": 2}], {"a": 1, "b": 2}),
    ],
)
def test_json_patches_follow_the_library_of_kubernetes(original, patch, result):
    before = copy.deepcopy((original, patch))
    assert apply_json_patch(original, patch) == result
    assert (original, patch) == before


@pytest.mark.parametrize(
    ("original", "patch", "result"),
    [
        ({}, {"a": [{"b": None, "c": [None, {"d": None}]}]}, {"a": [{"c": [None, {}]}]}),
        ({"a": [1]}, {"a": [{"b": None}, None]}, {"a": [{}, None]}),
        ({"a": 1}, {"a": [{"b": None}]}, {"a": [{}]}),
        ({"a": {}}, {"a": [{"b": None}]}, {"a": [{"b": None}]}),
    ],
)
def test_merge_patches_prune_nulls_in_lists(original, patch, result):
    assert apply_merge_patch(original, patch) == result


@pytest.mark.parametrize(
    ("code", "original", "patch"),
    [
        (422, {"baz": "qux"}, [{"op": "test", "path": "/baz", "value": "bar"}]),
        (422, {"baz": 1}, [{"op": "test", "path": "/baz", "value": True}]),
        (422, {"foo": "bar"}, [{"op": "add", "path": "/baz/bat", "value": "qux"}]),
        (422, {"foo": "bar"}, [{"op": "remove", "path": "/baz"}]),
        (422, {"foo": [1]}, [{"op": "add", "path": "/foo/2", "value": 1}]),
        (422, {"foo": [1]}, [{"op": "remove", "path": "/foo/1"}]),
        (422, {"foo": {"a": 1}}, [{"op": "move", "from": "/foo", "path": "/foo/b"}]),
        (422, {}, [{"op": "add", "path": "", "value": {}}]),
        (422, {}, [{"op": "remove", "path": ""}]),
        (422, {}, [{"op": "spin", "path": "/a"}]),
        (422, {}, [{"op": "add", "path": "a", "value": 1}]),
        (422, {}, [{"op": "copy", "path": "/a"}]),
        (422, {"a": [1]}, [{"op": "remove", "path": "/a/" + "9" * 5000}]),
        (422, {"foo": [1]}, [{"op": "replace", "path": "/foo/1", "value": 1}]),
        (422, {"foo": [1]}, [{"op": "remove", "path": "/foo/-2"}]),
        (422, {"foo": [1]}, [{"op": "add", "path": "/foo/-3", "value": 1}]),
        (422, {"foo": [1]}, [{"op": "test", "path": "/foo/-", "value": 1}]),
        (422, {"a": 1}, [{"op": "test", "path": "/a", "value": 1.0}]),
        (422, {"a": 1}, [{"op": "test", "path": "/a"}]),
        (422, {"a": 1}, [{"op": "copy", "from": "", "path": "/b"}]),
        (422, {"a": 1}, [{"op": "move", "from": "", "path": "/b"}]),
        (422, {"a": 1}, [{"op": "move", "from": "/b", "path": "/c"}]),
        (422, {"a": None}, [{"op": "add", "path": "/a/b", "value": 1}]),
        (422, {"a": "x"}, [{"op": "test", "path": "/a/b", "value": None}]),
        (422, {}, [{"op": "replace", "path": "", "value": True}]),
        (422, {"a": 1}, [{"op": "replace", "path": "/b/c", "value": 1}]),
        (400, {}, {"op": "add"}),
        (400, {}, ["add"]),
        (413, {}, [{"op": "add", "path": "/a", "value": 1}] * 10_001),
    ],
)
def test_json_patches_that_do_not_apply_are_refused(code, original, patch):
    with pytest.raises(PatchRefused) as caught:
        apply_json_patch(original, patch)
    assert caught.value.code == code


POINTERS = st.lists(st.sampled_from(["a", "b", "0", "1", "-", "~0", ""]), max_size=3).map(
    lambda steps: "".join(f"/{step}" for step in steps)
)
OPERATIONS = st.lists(
    st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]), "path": POINTERS},
        optional={"from": POINTERS, "value": JSON},
    ),
    max_size=4,
)


@settings(deadline=None)
@given(JSON, OPERATIONS)
def test_any_json_patch_applies_or_is_refused(original, patch):
    with contextlib.suppress(PatchRefused):
        apply_json_patch(original, patch)


def test_copies_of_a_json_patch_are_bounded():
    doubling = [{"op": "copy", "from": "/data", "path": f"/data/k{i}"} for i in range(20)]
    text = "^Unable to complete the copy, the accumulated size increase of copy is [0-9]+, exceeding the limit 3145728$"
    with pytest.raises(PatchRefused, match=text):
        apply_json_patch({"data": {"x": "y" * 100}}, doubling)
