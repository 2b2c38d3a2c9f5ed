"""Comparison of objects, and the field sets of new ones, as the real server writes them."""

from __future__ import annotations

import pytest

from bridgehead.apiserver.fieldmanagement.comparing import compare
from bridgehead.apiserver.fieldmanagement.fieldset import paths
from bridgehead.apiserver.fieldmanagement.path_steps import path_text

from .kinds import kind_of, small

DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}, "uid": "u", "generation": 1},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "web"}},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "containers": [
                    {
                        "name": "web",
                        "image": "nginx",
                        "resources": {"limits": {"cpu": "1"}},
                        "ports": [{"containerPort": 80, "protocol": "TCP"}],
                    }
                ],
                "securityContext": {},
                "tolerations": [{"key": "a"}],
            },
        },
    },
}


def test_a_new_deployment():
    """The parents that Go's zero value contains are no members: spec, strategy, template and containers."""
    compared = compare({}, DEPLOYMENT, kind_of("Deployment", "apps").root)
    assert compared.removed == {}
    assert compared.changed == {
        "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
        "f:spec": {
            "f:replicas": {},
            "f:selector": {},
            "f:strategy": {
                "f:rollingUpdate": {".": {}, "f:maxSurge": {}, "f:maxUnavailable": {}},
                "f:type": {},
            },
            "f:template": {
                "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
                "f:spec": {
                    "f:containers": {
                        'k:{"name":"web"}': {
                            ".": {},
                            "f:image": {},
                            "f:name": {},
                            "f:ports": {
                                ".": {},
                                'k:{"containerPort":80,"protocol":"TCP"}': {
                                    ".": {},
                                    "f:containerPort": {},
                                    "f:protocol": {},
                                },
                            },
                            "f:resources": {".": {}, "f:limits": {".": {}, "f:cpu": {}}},
                        }
                    },
                    "f:securityContext": {},
                    "f:tolerations": {},
                },
            },
        },
    }


def test_the_sets_of_new_objects_are_in_order():
    changed = compare({}, DEPLOYMENT, kind_of("Deployment", "apps").root).changed
    assert list(changed["f:spec"]) == sorted(changed["f:spec"])


def _small(**fields):
    return {"apiVersion": "v1", "kind": "Small", "metadata": {"name": "s"}, **fields}


@pytest.mark.parametrize(
    ("old", "new", "changed", "removed"),
    [
        ({}, {}, "", ""),
        ({"a": "1"}, {"a": "1"}, "", ""),
        ({"a": "1"}, {"a": "2"}, ".a", ""),
        ({"a": "1"}, {}, "", ".a"),
        ({}, {"labels": {"x": "1"}}, ".labels .labels.x", ""),
        ({"labels": {"x": "1"}}, {"labels": {"x": "1", "y": "2"}}, ".labels.y", ""),
        ({"labels": {"x": "1", "y": "2"}}, {"labels": {"x": "1"}}, "", ".labels.y"),
        ({"labels": {"x": "1"}}, {}, "", ".labels .labels.x"),
        ({"whole": ["1"]}, {"whole": ["1", "2"]}, ".whole", ""),
        ({"fixed": {"x": "1"}}, {"fixed": {"x": "2"}}, ".fixed", ""),
        ({"tags": ["1", "2"]}, {"tags": ["2", "3"]}, '.tags[="3"]', '.tags[="1"]'),
        ({"tags": ["1", "2"]}, {"tags": ["2", "1"]}, "", ""),
        (
            {"items": [{"name": "n", "x": "1"}]},
            {"items": [{"name": "n", "x": "2"}, {"name": "m"}]},
            '.items[name="m"] .items[name="m"].name .items[name="n"].x',
            "",
        ),
        ({"items": [{"name": "n"}]}, {"items": []}, "", '.items[name="n"] .items[name="n"].name'),
        (
            {"items": [{"name": "n", "x": "1"}, {"name": "n", "x": "2"}]},
            {"items": [{"name": "n", "x": "1"}, {"name": "n", "x": "3"}]},
            '.items[name="n"]',
            "",
        ),
        (
            {"items": [{"name": "n", "inner": {"y": "1"}}]},
            {"items": [{"name": "n", "inner": {"z": "1"}}]},
            '.items[name="n"].inner.z',
            '.items[name="n"].inner.y',
        ),
        ({"free": {"m": {"n": 1}}}, {"free": {"m": {"n": 2}, "l": [1]}}, ".free.l .free.m.n", ""),
        ({"nested": {"p": "1"}}, {"nested": {"p": "1", "q": {}}}, ".nested.q", ""),
    ],
)
def test_differences(old, new, changed, removed):
    compared = compare(_small(**old), _small(**new), small().root)
    assert sorted(map(path_text, paths(compared.changed))) == sorted(changed.split())
    assert sorted(map(path_text, paths(compared.removed))) == sorted(removed.split())


def test_identifying_fields_have_no_owner():
    old = _small()
    new = {**_small(), "apiVersion": "v2", "metadata": {"name": "t", "uid": "u", "resourceVersion": "3"}}
    assert compare(old, new, small().root) == ({}, {})


@pytest.mark.parametrize(
    ("selector", "owned"),
    [({}, ".spec.policyTypes"), ({"matchLabels": {"a": "b"}}, ".spec.podSelector .spec.policyTypes")],
)
def test_an_empty_struct_by_value_is_not_owned(selector, owned):
    new = {"spec": {"podSelector": selector, "policyTypes": ["Ingress"]}}
    added = compare({}, new, kind_of("NetworkPolicy", "networking.k8s.io").root).changed
    assert " ".join(path_text(path) for path in paths(added)) == owned


def test_a_required_pointer_is_owned():
    added = compare(
        {}, {"spec": {"parentRef": {"name": "web"}}}, kind_of("IPAddress", "networking.k8s.io").root
    ).changed
    assert [path_text(path) for path in paths(added)] == [".spec.parentRef", ".spec.parentRef.name"]


def test_a_struct_by_value_is_not_owned_when_it_is_filled():
    root = kind_of("Pod").root
    old = {"spec": {"containers": [{"name": "c"}]}}
    new = {"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]}}
    texts = [path_text(path) for path in paths(compare(old, new, root).changed)]
    where = '.spec.containers[name="c"].resources.limits'
    assert texts == [where, f"{where}.cpu"]
