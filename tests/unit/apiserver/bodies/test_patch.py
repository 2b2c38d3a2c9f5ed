"""The three kinds of patches, on the examples of their specifications."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.apiserver.bodies.definitions import load_definitions
from bridgehead.apiserver.bodies.patch import (
    STRATEGIC_MERGE_PATCH,
    apply_json_patch,
    apply_merge_patch,
    apply_patch,
    apply_strategic_patch,
)
from bridgehead.apiserver.bodies.schema import Schema
from bridgehead.apiserver.bodies.shapes import Shape
from bridgehead.apiserver.errors import PatchRefused

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "a", "b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def schema() -> Schema:
    return Schema(load_definitions())


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


@pytest.mark.parametrize(
    ("code", "original", "patch"),
    [
        (422, {"baz": "qux"}, [{"op": "test", "path": "/baz", "value": "bar"}]),
        (422, {"baz": 1}, [{"op": "test", "path": "/baz", "value": True}]),
        (422, {"foo": "bar"}, [{"op": "add", "path": "/baz/bat", "value": "qux"}]),
        (422, {"foo": "bar"}, [{"op": "remove", "path": "/baz"}]),
        (422, {"foo": "bar"}, [{"op": "replace", "path": "/baz", "value": 1}]),
        (422, {"foo": [1]}, [{"op": "add", "path": "/foo/2", "value": 1}]),
        (422, {"foo": [1]}, [{"op": "add", "path": "/foo/01", "value": 1}]),
        (422, {"foo": [1]}, [{"op": "remove", "path": "/foo/-1"}]),
        (422, {"foo": [1]}, [{"op": "remove", "path": "/foo/1"}]),
        (422, {"foo": {"a": 1}}, [{"op": "move", "from": "/foo", "path": "/foo/b"}]),
        (422, {}, [{"op": "add", "path": "", "value": {}}]),
        (422, {}, [{"op": "remove", "path": ""}]),
        (422, {}, [{"op": "spin", "path": "/a"}]),
        (422, {}, [{"op": "add", "path": "a", "value": 1}]),
        (422, {}, [{"op": "copy", "path": "/a"}]),
        (422, {"a": [1]}, [{"op": "remove", "path": "/a/" + "9" * 5000}]),
        (422, {"a": [1]}, [{"op": "test", "path": "/a/+0", "value": 1}]),
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


# The examples of Kubernetes' strategic-merge-patch.md, on fields of real kinds.
CASES = yaml.safe_load("""
- name: containers are merged by name
  kind: PodSpec
  original: {containers: [{name: nginx, image: nginx-1.0}]}
  patch: {containers: [{name: log-tailer, image: log-tailer-1.0}]}
  result: {containers: [{name: nginx, image: nginx-1.0}, {name: log-tailer, image: log-tailer-1.0}]}
- name: an element is changed in place
  kind: PodSpec
  original: {containers: [{name: a, image: "1", command: [x]}, {name: b, image: "1"}]}
  patch: {containers: [{name: a, image: "2", command: [y]}]}
  result: {containers: [{name: a, image: "2", command: [y]}, {name: b, image: "1"}]}
- name: a list without a merge key is replaced
  kind: PodSpec
  original: {tolerations: [{key: a}]}
  patch: {tolerations: [{key: b}]}
  result: {tolerations: [{key: b}]}
- name: replace directive in a list
  kind: PodSpec
  original: {containers: [{name: nginx, image: nginx-1.0}]}
  patch: {containers: [{name: log-tailer, image: log-tailer-1.0}, {$patch: replace}]}
  result: {containers: [{name: log-tailer, image: log-tailer-1.0}]}
- name: delete directive in a list
  kind: PodSpec
  original: {containers: [{name: nginx, image: nginx-1.0}, {name: log-tailer}]}
  patch: {containers: [{$patch: delete, name: nginx}]}
  result: {containers: [{name: log-tailer}]}
- name: replace directive in a map
  kind: PodSpec
  original: {securityContext: {runAsUser: 1, fsGroup: 2}}
  patch: {securityContext: {$patch: replace, runAsGroup: 3}}
  result: {securityContext: {runAsGroup: 3}}
- name: delete directive in a map
  kind: PodSpec
  original: {nodeSelector: {a: b}, hostname: x}
  patch: {nodeSelector: {$patch: delete}}
  result: {nodeSelector: {}, hostname: x}
- name: null deletes
  kind: PodSpec
  original: {nodeSelector: {a: b, c: d}, hostname: x}
  patch: {nodeSelector: {a: null}, hostname: null, subdomain: null}
  result: {nodeSelector: {c: d}}
- name: retain keys
  kind: DeploymentSpec
  original: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1}}}
  patch: {strategy: {$retainKeys: [type], type: Recreate}}
  result: {strategy: {type: Recreate}}
- name: retain keys in an element
  kind: PodSpec
  original: {volumes: [{name: v, emptyDir: {}}]}
  patch: {volumes: [{$retainKeys: [name, hostPath], name: v, hostPath: {path: /x}}]}
  result: {volumes: [{name: v, hostPath: {path: /x}}]}
- name: primitives are merged as a set
  kind: ObjectMeta
  original: {finalizers: [a, b, c]}
  patch: {finalizers: [d, a]}
  result: {finalizers: [a, b, c, d]}
- name: delete from a list of primitives
  kind: ObjectMeta
  original: {finalizers: [a, b, c]}
  patch: {$deleteFromPrimitiveList/finalizers: [b]}
  result: {finalizers: [a, c]}
- name: element order of primitives
  kind: ObjectMeta
  original: {finalizers: [a, b, c]}
  patch: {$setElementOrder/finalizers: [d, c, a], finalizers: [d], $deleteFromPrimitiveList/finalizers: [b]}
  result: {finalizers: [d, c, a]}
- name: element order of a list by its key
  kind: PodSpec
  original: {containers: [{name: a, image: "1"}, {name: b, image: "1"}, {name: c, image: "1"}]}
  patch:
    $setElementOrder/containers: [{name: c}, {name: a}, {name: b}]
    containers: [{name: b, image: "2"}]
  result: {containers: [{name: c, image: "1"}, {name: a, image: "1"}, {name: b, image: "2"}]}
- name: elements that only the server knows keep their places
  kind: PodSpec
  original: {containers: [{name: server, image: "1"}, {name: a, image: "1"}, {name: b, image: "1"}]}
  patch: {$setElementOrder/containers: [{name: b}, {name: a}], containers: []}
  result: {containers: [{name: server, image: "1"}, {name: b, image: "1"}, {name: a, image: "1"}]}
- name: order of a list that is not there
  kind: PodSpec
  original: {}
  patch: {$setElementOrder/containers: [{name: a}]}
  result: {}
- name: ports of a container are merged by their number
  kind: Container
  original: {ports: [{containerPort: 80, name: http}]}
  patch: {ports: [{containerPort: 80, name: web}, {containerPort: 443}]}
  result: {ports: [{containerPort: 80, name: web}, {containerPort: 443}]}
- name: directives in what is new are obeyed too
  kind: PodSpec
  original: {}
  patch: {volumes: [{$retainKeys: [name], name: v}, {$patch: delete, name: w}]}
  result: {volumes: [{name: v}]}
- name: labels
  kind: ObjectMeta
  original: {labels: {a: b}, annotations: {x: y}}
  patch: {labels: {a: c, d: e}}
  result: {labels: {a: c, d: e}, annotations: {x: y}}
""")


ITEM_OF_TEXT = "expected a map[string]interface {}, but received a string"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def shape_of(schema: Schema, kind: str) -> Shape:
    pod = schema.of_kind("", "v1", "Pod")
    deployment = schema.of_kind("apps", "v1", "Deployment")
    containers: Any = pod.child("spec").child("containers")
    return {
        "PodSpec": pod.child("spec"),
        "ObjectMeta": pod.child("metadata"),
        "DeploymentSpec": deployment.child("spec"),
        "Container": containers.items,
    }[kind]


@pytest.mark.parametrize("case", CASES, ids=[case["name"].replace(" ", "-") for case in CASES])
def test_strategic_merge_patches_follow_kubernetes_rules(schema, case):
    before = copy.deepcopy(case)
    assert apply_strategic_patch(case["original"], case["patch"], shape_of(schema, case["kind"])) == case["result"]
    assert case == before


@pytest.mark.parametrize(
    ("code", "patch"),
    [
        (500, {"containers": [{"image": "x"}]}),
        (400, {"containers": ["x"]}),
        (500, {"$patch": "explode"}),
        (500, {"containers": [{"name": "a", "$patch": "explode"}]}),
        (500, {"$setElementOrder/containers": "x", "containers": []}),
        (400, {"$deleteFromPrimitiveList/hostname": ["x"], "hostname": 5}),
        (422, {"$retainKeys": ["hostname"], "subdomain": "x"}),
    ],
)
def test_invalid_strategic_patches_are_refused(schema, code, patch):
    with pytest.raises(PatchRefused) as caught:
        apply_strategic_patch({"containers": [{"name": "a"}]}, patch, shape_of(schema, "PodSpec"))
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("patch", "code", "message"),
    [
        # The elements are not in the order that is set, or not all of them are in it.
        (
            {
                "$setElementOrder/containers": [{"name": "a"}, {"name": "b"}],
                "containers": [{"name": "b"}, {"name": "a"}],
            },
            500,
            "The order in patch list:\n[map[name:b] map[name:a]]\n doesn't match $setElementOrder list:\n"
            "[map[name:a] map[name:b]]\n",
        ),
        (
            {"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "b", "image": "x"}]},
            500,
            "The order in patch list:\n[map[image:x name:b]]\n doesn't match $setElementOrder list:\n[map[name:a]]\n",
        ),
        (
            {"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "a"}, {"$patch": "replace"}]},
            500,
            "The order in patch list:\n[map[name:a] map[$patch:replace]]\n doesn't match $setElementOrder list:\n"
            "[map[name:a]]\n",
        ),
        ({"$setElementOrder/containers": ["a"], "containers": [{"name": "a"}]}, 500, ITEM_OF_TEXT),
        ({"$setElementOrder/containers": [{"name": "a"}], "containers": ["a"]}, 500, ITEM_OF_TEXT),
        (
            {"$setElementOrder/containers": [{"x": "a"}], "containers": [{"name": "a"}]},
            500,
            "map: map[x:a] does not contain declared merge key: name",
        ),
        (
            {"$setElementOrder/containers": [{"name": "a"}], "containers": [{"image": "x"}]},
            500,
            "map: map[image:x] does not contain declared merge key: name",
        ),
        (
            {"$setElementOrder/containers": [{"name": "a"}], "containers": None},
            500,
            "expected a []interface {}, but received a %!s(<nil>)",
        ),
        (
            {"$setElementOrder/hostname": ["a"]},
            500,
            "expected a []interface {}, but received a string",
        ),
        ({"$setElementOrder": [{"name": "a"}]}, 400, "invalid patch format of setElementOrder list"),
        ({"$setElementOrders/containers": []}, 400, "invalid patch format of setElementOrder list"),
    ],
)
def test_lists_of_a_patch_have_the_order_that_it_sets(schema, patch, code, message):
    original = {"containers": [{"name": "a"}, {"name": "b"}], "hostname": "x"}
    with pytest.raises(PatchRefused) as caught:
        apply_strategic_patch(original, patch, shape_of(schema, "PodSpec"))
    assert (caught.value.code, str(caught.value)) == (code, message)


def test_primitives_of_a_patch_have_the_order_that_it_sets(schema):
    patch = {"$setElementOrder/finalizers": ["a", "b", "c"], "finalizers": ["c", "b"]}
    with pytest.raises(PatchRefused, match=r"^The order in patch list:\n\[c b\]\n doesn't match"):
        apply_strategic_patch({"finalizers": ["a"]}, patch, shape_of(schema, "ObjectMeta"))


@pytest.mark.parametrize(
    "patch",
    [
        # Elements that the patch deletes need no place, and an empty list has any order.
        {
            "$setElementOrder/containers": [{"name": "b"}],
            "containers": [{"$patch": "delete", "name": "a"}, {"name": "b"}],
        },
        {"$setElementOrder/containers": [], "containers": [{"name": "b"}]},
        {"$setElementOrder/containers": [{"name": "b"}], "containers": []},
        # Orders in what is new have no effect.
        {"affinity": {"nodeAffinity": {f"$setElementOrder/{PREFERRED}": [1], PREFERRED: []}}},
        {
            "containers": [
                {"name": "c", "$setElementOrder/ports": [{"containerPort": 1}], "ports": [{"containerPort": 2}]}
            ]
        },
    ],
)
def test_orders_that_match_are_accepted(schema, patch):
    apply_strategic_patch({"containers": [{"name": "a"}, {"name": "b"}]}, patch, shape_of(schema, "PodSpec"))


def test_copies_of_a_json_patch_are_bounded():
    doubling = [{"op": "copy", "from": "/data", "path": f"/data/k{i}"} for i in range(20)]
    text = "^Unable to complete the copy, the accumulated size increase of copy is [0-9]+, exceeding the limit 3145728$"
    with pytest.raises(PatchRefused, match=text):
        apply_json_patch({"data": {"x": "y" * 100}}, doubling)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["containers", "hostname", "nodeSelector", "$patch", "$retainKeys"]), JSON))
def test_any_strategic_patch_applies_or_is_refused(schema, patch):
    original = {"containers": [{"name": "a"}], "nodeSelector": {"a": "b"}}
    with contextlib.suppress(PatchRefused):
        apply_patch(STRATEGIC_MERGE_PATCH, original, patch, shape_of(schema, "PodSpec"))
