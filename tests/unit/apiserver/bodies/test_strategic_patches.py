"""Strategic merge patch: the examples of its specification, and results of Kubernetes' own code.

`strategic_patches.jsonl` has random patches, many with several elements of one merge key, and what apimachinery's
`StrategicMergeMapPatch` makes of them with the types of k8s.io/api: a result, or an error with the code that the API
server sends.
"""

from __future__ import annotations

import contextlib
import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.apiserver.bodies.definitions import load_definitions
from bridgehead.apiserver.bodies.patch import STRATEGIC_MERGE_PATCH, apply_patch
from bridgehead.apiserver.bodies.schema import Schema
from bridgehead.apiserver.bodies.strategic_patches import apply_strategic_patch
from bridgehead.apiserver.errors import PatchRefused
from bridgehead.apiserver.shapes import Shape

RECORDED = [json.loads(line) for line in Path(__file__).with_name("strategic_patches.jsonl").read_text().splitlines()]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "a", "b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def schema() -> Schema:
    return Schema(load_definitions())


# The examples of Kubernetes' strategic-merge-patch.md, on fields of real kinds.
CASES = yaml.safe_load("""
- name: containers are merged by name
  kind: PodSpec
  original: {containers: [{name: nginx, image: nginx-1.0}]}
  patch: {containers: [{name: log-tailer, image: log-tailer-1.0}]}
  result: {containers: [{name: log-tailer, image: log-tailer-1.0}, {name: nginx, image: nginx-1.0}]}
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
  result: {finalizers: [d, a, b, c]}
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
- name: what is new has no elements with directives
  kind: PodSpec
  original: {}
  patch: {volumes: [{name: v}, {$patch: delete, name: w}]}
  result: {volumes: [{name: v}]}
- name: other directives in what is new are fields like others
  kind: PodSpec
  original: {}
  patch: {volumes: [{$retainKeys: [name], name: v}]}
  result: {volumes: [{$retainKeys: [name], name: v}]}
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
    containers: Any = pod.child("spec").child("containers")
    return {
        "PodSpec": pod.child("spec"),
        "ObjectMeta": pod.child("metadata"),
        "DeploymentSpec": schema.of_kind("apps", "v1", "Deployment").child("spec"),
        "ServiceSpec": schema.of_kind("", "v1", "Service").child("spec"),
        "ControllerRevision": schema.of_kind("apps", "v1", "ControllerRevision"),
        "Container": containers.items,
    }[kind]


@pytest.mark.parametrize("number", range(len(RECORDED)))
def test_patches_have_the_results_of_kubernetes(schema, number):
    case = RECORDED[number]
    before = copy.deepcopy(case)
    try:
        outcome: dict[str, Any] = {
            "result": apply_strategic_patch(case["original"], case["patch"], shape_of(schema, case["kind"]))
        }
    except PatchRefused as refused:
        outcome = {"error": str(refused), "code": refused.code}
    assert case == before
    assert outcome == {name: case[name] for name in ("result", "error", "code") if name in case}


@pytest.mark.parametrize("case", CASES, ids=[case["name"].replace(" ", "-") for case in CASES])
def test_strategic_merge_patches_follow_kubernetes_rules(schema, case):
    before = copy.deepcopy(case)
    assert apply_strategic_patch(case["original"], case["patch"], shape_of(schema, case["kind"])) == case["result"]
    assert case == before


@pytest.mark.parametrize(
    ("code", "patch"),
    [
        (500, {"containers": [{"image": "x"}]}),
        (500, {"containers": ["x"]}),
        (500, {"$patch": "explode"}),
        (500, {"containers": [{"name": "a", "$patch": "explode"}]}),
        (500, {"$setElementOrder/containers": "x", "containers": []}),
        (400, {"$deleteFromPrimitiveList": ["x"]}),
        (400, {"$retainKeys": ["hostname"], "subdomain": "x"}),
        (500, {"$setElementOrder/hostname": ["x"]}),
        (500, {"nodeSelector": {"a": {"b": "c"}}}),
        # kube-apiserver panics at these.
        (400, {"containers": [{"name": ["a"]}]}),
        (400, {"$setElementOrder/tolerations": [{"key": "a"}]}),
        (400, {"ephemeralContainers": [None]}),
        (422, {"ephemeralContainers": [["a"]]}),
    ],
)
def test_invalid_strategic_patches_are_refused(schema, code, patch):
    original: dict[str, Any] = {"containers": [{"name": "a"}], "tolerations": [{"key": "a"}], "ephemeralContainers": []}
    original["nodeSelector"] = {"a": {}}  # as if values of the map were structs
    with pytest.raises(PatchRefused) as caught:
        apply_strategic_patch(original, patch, shape_of(schema, "PodSpec"))
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


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["containers", "hostname", "nodeSelector", "$patch", "$retainKeys"]), JSON))
def test_any_strategic_patch_applies_or_is_refused(schema, patch):
    original = {"containers": [{"name": "a"}], "nodeSelector": {"a": "b"}}
    with contextlib.suppress(PatchRefused):
        apply_patch(STRATEGIC_MERGE_PATCH, original, patch, shape_of(schema, "PodSpec"))
