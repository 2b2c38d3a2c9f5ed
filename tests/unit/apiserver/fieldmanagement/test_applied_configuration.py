"""Applied configurations: their field sets, their errors, and their merge with a live object."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.apiserver.fieldmanagement.applied_configuration import check, field_set
from bridgehead.apiserver.fieldmanagement.errors import BadConfiguration
from bridgehead.apiserver.fieldmanagement.fieldset import paths
from bridgehead.apiserver.fieldmanagement.merging import merge, merged_order
from bridgehead.apiserver.fieldmanagement.path_steps import path_text

from .kinds import kind_of, small


@pytest.mark.parametrize(
    ("configuration", "owned"),
    [
        ({"a": "1", "b": 2}, ".a .b"),
        ({"labels": {"x": "1"}}, ".labels.x"),
        ({"labels": {}}, ".labels"),
        ({"a": None}, ".a"),
        ({"items": [{"name": "n", "x": "1"}]}, '.items[name="n"] .items[name="n"].name .items[name="n"].x'),
        ({"items": []}, ""),
        ({"tags": ["1"]}, '.tags[="1"]'),
        ({"whole": []}, ".whole"),
        ({"nested": {"q": {"k": "v"}}}, ".nested.q.k"),
        ({"free": {"m": {"n": 1}}}, ".free.m .free.m.n"),
    ],
)
def test_owned_paths(configuration, owned):
    fields = field_set({"apiVersion": "v1", "metadata": {"name": "s"}, **configuration}, small().root)
    assert sorted(map(path_text, paths(fields))) == sorted(owned.split())


@pytest.mark.parametrize(
    ("configuration", "text"),
    [
        ({"spec": {"foo": 1}}, ".spec.foo: field not declared in schema"),
        ({"spec": {"clusterIP": 5}}, ".spec.clusterIP: expected string, got &value.valueUnstructured{Value:5}"),
        (
            {"spec": {"ports": [{"port": "x"}]}},
            '.spec.ports[port="x",protocol="TCP"].port: expected numeric (int or float), got string',
        ),
        ({"spec": {"ports": {}}}, ".spec.ports: expected list, got map[]"),
        ({"spec": []}, ".spec: expected map, got []"),
        ({"spec": {"publishNotReadyAddresses": "x"}}, ".spec.publishNotReadyAddresses: expected boolean, got &{x}"),
        (
            {"spec": {"ports": [{"port": 80}, {"port": 80, "protocol": "TCP"}]}},
            '.spec.ports: duplicate entries for key [port=80,protocol="TCP"]',
        ),
        ({"spec": {"ports": [None]}}, ".spec.ports: element 0: associative list with keys may not have a null element"),
        ({"spec": {"ports": [1]}}, ".spec.ports: element 0: associative list with keys may not have non-map elements"),
        (
            {"spec": {"a": 1, "b": 2}},
            "errors:\n  .spec.a: field not declared in schema\n  .spec.b: field not declared in schema",
        ),
        (
            {"spec": {"ports": [{"port": 1, "targetPort": {}}]}},
            '.spec.ports[port=1,protocol="TCP"].targetPort: expected any scalar, got &{map[]}',
        ),
    ],
)
def test_errors(configuration, text):
    with pytest.raises(BadConfiguration) as caught:
        check(configuration, kind_of("Service").root)
    assert str(caught.value) == text


def test_an_element_without_any_key_is_refused():
    with pytest.raises(BadConfiguration) as caught:
        check({"items": [{"x": "1"}]}, small().root)
    assert str(caught.value) == (
        '.items: element 0: associative list with keys has an element that omits all key fields ["name"] '
        "(and doesn't have default values for any key fields)"
    )
    with pytest.raises(BadConfiguration, match="whose key is not a scalar"):
        check({"items": [{"name": {}}]}, small().root)
    with pytest.raises(BadConfiguration, match="map type"):
        check({"tags": [{}]}, small().root)


def test_an_element_may_lack_some_of_its_keys():
    root = kind_of("ResourceClaim", "resource.k8s.io").root
    device = {"driver": "d.example.com", "pool": "p", "device": "x"}
    check({"status": {"devices": [device, {**device, "shareID": "s"}]}}, root)
    with pytest.raises(BadConfiguration) as caught:
        check({"status": {"devices": [device, dict(device)]}}, root)
    assert str(caught.value) == (
        '.status.devices: duplicate entries for key [device="x",driver="d.example.com",pool="p"]'
    )


def test_deep_configurations_are_refused():
    deep: dict[str, Any] = {}
    for _ in range(500):
        deep = {"x": deep}
    check({"free": deep}, small().root)
    nested = {"openAPIV3Schema": {}}
    inner = nested["openAPIV3Schema"]
    for _ in range(500):
        inner["not"] = {}
        inner = inner["not"]
    root = kind_of("CustomResourceDefinition", "apiextensions.k8s.io").root
    with pytest.raises(BadConfiguration, match="exceeded max depth"):
        check({"spec": {"versions": [{"name": "v1", "schema": nested}]}}, root)


@pytest.mark.parametrize(
    ("live", "applied", "merged"),
    [
        ({"a": "1", "b": 2}, {"a": "3"}, {"a": "3", "b": 2}),
        ({"a": "1"}, {"a": None}, {"a": None}),
        ({"labels": {"x": "1"}}, {"labels": {"y": "2"}}, {"labels": {"x": "1", "y": "2"}}),
        ({"labels": {"x": "1"}}, {"labels": {}}, {"labels": {"x": "1"}}),
        ({"labels": {"x": "1"}}, {"labels": None}, {"labels": {"x": "1"}}),
        ({"whole": ["1"]}, {"whole": ["2"]}, {"whole": ["2"]}),
        ({"fixed": {"x": "1"}}, {"fixed": {"y": "1"}}, {"fixed": {"y": "1"}}),
        ({"tags": ["1", "2"]}, {"tags": ["3", "1"]}, {"tags": ["3", "1", "2"]}),
        (
            {"items": [{"name": "n", "x": "1"}, {"name": "m"}]},
            {"items": [{"name": "n", "inner": {"y": "2"}}]},
            {"items": [{"name": "n", "x": "1", "inner": {"y": "2"}}, {"name": "m"}]},
        ),
        (
            {"items": [{"name": "n", "x": "1"}, {"name": "n", "x": "2"}]},
            {"items": [{"name": "n", "x": "3"}]},
            {"items": [{"name": "n", "x": "3"}]},
        ),
        (
            {"items": [{"name": "n", "x": "1"}, {"name": "n", "x": "2"}]},
            {"items": [{"name": "m"}]},
            {"items": [{"name": "n", "x": "1"}, {"name": "n", "x": "2"}, {"name": "m"}]},
        ),
        # Several live elements of one key stay where they are.
        (
            {"items": [{"name": "n", "x": "1"}, {"name": "o"}, {"name": "n", "x": "2"}]},
            {"items": [{"name": "m"}]},
            {"items": [{"name": "n", "x": "1"}, {"name": "o"}, {"name": "n", "x": "2"}, {"name": "m"}]},
        ),
        (
            {"items": [{"name": "n", "x": "1"}, {"name": "o"}, {"name": "n", "x": "2"}]},
            {"items": [{"name": "o", "x": "3"}]},
            {"items": [{"name": "n", "x": "1"}, {"name": "o", "x": "3"}, {"name": "n", "x": "2"}]},
        ),
        ({"free": {"m": {"n": 1}}}, {"free": {"m": {"o": [1]}}}, {"free": {"m": {"n": 1, "o": [1]}}}),
    ],
)
def test_merge(live, applied, merged):
    assert merge(live, applied, small().root) == merged


@pytest.mark.parametrize(
    ("live", "applied", "order"),
    [
        ("", "ab", "ab"),
        ("ab", "", "ab"),
        ("ab", "ba", "ba"),
        ("axb", "ab", "axb"),
        ("xab", "ab", "xab"),
        ("abx", "ab", "abx"),
        ("bax", "abc", "axbc"),
        ("ab", "acb", "acb"),
        ("xy", "ab", "xyab"),
        ("abc", "cab", "cab"),
        ("axa", "b", "axab"),
        ("axa", "a", "ax"),
        ("bacay", "ca", "bcay"),
        ("aabba", "b", "aaba"),
    ],
)
def test_order_of_merged_lists(live, applied, order):
    assert "".join(step for _, step in merged_order(live, applied)) == order
