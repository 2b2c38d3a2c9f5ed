"""Sets, lists with keys, and embedded objects."""

from __future__ import annotations

from typing import Any

import pytest

from .objects import INTEGER, PRESERVED, STRING, keyed, listing, mapping, struct, texts

SET = {"x-kubernetes-list-type": "set"}
PORTS = keyed(struct(name=STRING, protocol=STRING), "name")
TWO_KEYS = keyed(struct(port=INTEGER, protocol=STRING), "port", "protocol")

LISTS: dict[str, tuple[Any, Any, list[str]]] = {
    "a set": (listing(STRING, **SET), ["a", "b"], []),
    "a set with a duplicate": (listing(STRING, **SET), ["a", "b", "a", "a"], ['spec.x[2]: Duplicate value: "a"']),
    "a set of objects": (
        listing(mapping(STRING), **SET),
        [{"a": "1", "b": "2"}, {"b": "2", "a": "1"}],
        ['spec.x[1]: Duplicate value: {"b":"2","a":"1"}'],
    ),
    "true and one differ": ({"type": "array", "items": PRESERVED, **SET}, [True, 1], None),  # type: ignore[dict-item]
    "keys": (PORTS, [{"name": "a"}, {"name": "b"}], []),
    "a key twice": (
        PORTS,
        [{"name": "a"}, {"name": "a", "protocol": "x"}],
        ['spec.x[1]: Duplicate value: {"name":"a"}'],
    ),
    "no key twice": (PORTS, [{}, {}], ["spec.x[1]: Duplicate value: {}"]),
    "two keys": (TWO_KEYS, [{"port": 1, "protocol": "TCP"}, {"port": 1, "protocol": "UDP"}], []),
    "two keys twice": (
        TWO_KEYS,
        [{"port": 1, "protocol": "TCP"}, {"protocol": "TCP", "port": 1}],
        ['spec.x[1]: Duplicate value: {"port":1,"protocol":"TCP"}'],
    ),
    "in lists": (
        listing(listing(STRING, **SET)),
        [["a", "a"]],
        ['spec.x[0][1]: Duplicate value: "a"'],
    ),
    "in maps": (mapping(listing(STRING, **SET)), {"k": ["a", "a"]}, ['spec.x[k][1]: Duplicate value: "a"']),
    "atomic": (listing(STRING, **{"x-kubernetes-list-type": "atomic"}), ["a", "a"], []),
}


@pytest.mark.parametrize("case", LISTS)
def test_lists(case: str) -> None:
    schema, value, wanted = LISTS[case]
    found = texts(struct(spec=struct(x=schema)), {"spec": {"x": value}})
    assert not any("Duplicate" in text for text in found) if wanted is None else found == wanted


def test_items_with_keys_are_objects() -> None:
    found = texts(struct(spec=struct(x=PORTS)), {"spec": {"x": [{"name": "a"}, "b"]}})
    assert 'spec.x[1]: Invalid value: "b": must be an object for an array of list-type map' in found


POD = {"apiVersion": "v1", "kind": "Pod"}

EMBEDDED: dict[str, tuple[Any, list[str]]] = {
    "fine": ({**POD, "metadata": {"name": "a", "labels": {"a": "b"}}}, []),
    "no version": ({"kind": "Pod"}, ["spec.x.apiVersion: Required value"]),
    "empty kind": ({**POD, "kind": ""}, ['spec.x.kind: Invalid value: "": must not be empty']),
    "version": (
        {**POD, "apiVersion": "a/b/c"},
        ['spec.x.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c'],
    ),
    "wrong types": (
        {"apiVersion": 1, "kind": 2},
        ["spec.x.apiVersion: Invalid value: 1: must be a string", "spec.x.kind: Invalid value: 2: must be a string"],
    ),
    "kind": (
        {**POD, "kind": "1Pod"},
        [
            'spec.x.kind: Invalid value: "1Pod": may have mixed case, but should otherwise match: a DNS-1035 label '
            "must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end "
            "with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
            "'[a-z]([-a-z0-9]*[a-z0-9])?')"
        ],
    ),
    "metadata": (
        {**POD, "metadata": {"name": "a/b", "namespace": "A", "labels": {"a": "b c"}, "finalizers": ["a b"]}},
        [
            "spec.x.metadata.name: Invalid value: \"a/b\": may not contain '/'",
            'spec.x.metadata.namespace: Invalid value: "A": a lowercase RFC 1123 label',
            'spec.x.metadata.labels: Invalid value: "b c": a valid label',
            'spec.x.metadata.finalizers: Invalid value: "a b": name part must consist',
        ],
    ),
}


@pytest.mark.parametrize("case", EMBEDDED)
def test_embedded_objects(case: str) -> None:
    value, wanted = EMBEDDED[case]
    schema = PRESERVED | {"x-kubernetes-embedded-resource": True}
    found = texts(struct(spec=struct(x=schema)), {"spec": {"x": value}})
    assert len(found) == len(wanted)
    assert all(text.startswith(start) for text, start in zip(found, wanted, strict=True)), found


def test_embedded_objects_in_lists_and_maps() -> None:
    pod = PRESERVED | {"x-kubernetes-embedded-resource": True}
    schema = struct(spec=struct(a=listing(pod), b=mapping(pod)))
    assert texts(schema, {"spec": {"a": [POD, {"kind": "Pod"}], "b": {"k": {"kind": "Pod"}}}}) == [
        "spec.a[1].apiVersion: Required value",
        "spec.b[k].apiVersion: Required value",
    ]
