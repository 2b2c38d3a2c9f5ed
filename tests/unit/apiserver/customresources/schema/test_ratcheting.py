"""An update may keep invalid values that it does not change (KEP-4008)."""

from __future__ import annotations

from typing import Any

from bridgehead.apiserver.customresources.schema import Structural
from bridgehead.apiserver.customresources.schema.errors import MAX_ERRORS
from bridgehead.apiserver.resource import JsonObject

from .objects import INTEGER, STRING, keyed, listing, mapping, struct, texts

SHORT = STRING | {"maxLength": 1}
SCHEMA = struct(
    kind=STRING | {"enum": ["A"]},
    spec=struct(("name",), name=SHORT, other=SHORT, count=INTEGER)
    | {"allOf": [{"properties": {"name": {"pattern": "^x"}}}]},
    limits=mapping(SHORT),
    ports=keyed(struct(name=STRING, port=INTEGER | {"maximum": 10}), "name"),
    plain=listing(SHORT),
    status=struct(phase=SHORT),
)


def refused(old: JsonObject, new: JsonObject) -> list[str]:
    return [text.partition(":")[0] for text in texts(SCHEMA, new, old)]


def test_an_unchanged_object_stays_valid() -> None:
    bad = {"spec": {"name": "abc"}, "plain": ["long"]}
    assert refused(bad, dict(bad)) == []
    assert refused({}, bad) != []


def test_a_changed_field_is_checked_beside_one_that_did_not_change() -> None:
    old = {"spec": {"name": "xyz", "other": "a"}}
    assert refused(old, {"spec": {"name": "xyz", "other": "b"}}) == []
    assert refused(old, {"spec": {"name": "xyz", "other": "long"}}) == ["spec.other"]
    assert refused(old, {"spec": {"name": "xyzz", "other": "a"}}) == ["spec.name"]


def test_fields_in_alternatives_are_correlated_too() -> None:
    assert refused({"spec": {"name": "a"}}, {"spec": {"name": "a", "count": 1}}) == []
    assert refused({"spec": {"name": "x"}}, {"spec": {"name": "a", "count": 1}}) == ["spec.name", "<nil>"]


def test_a_required_field_is_checked_when_the_object_around_it_changes() -> None:
    assert refused({"spec": {"other": "a"}}, {"spec": {"other": "a"}, "plain": []}) == []
    assert refused({"spec": {"other": "a"}}, {"spec": {"other": "b"}}) == ["spec.name"]


def test_values_of_maps_are_correlated_by_key() -> None:
    assert refused({"limits": {"a": "long"}}, {"limits": {"a": "long", "b": "x"}}) == []
    assert refused({"limits": {"a": "long"}}, {"limits": {"b": "long"}}) == ["limits.b"]


def test_items_are_correlated_by_their_keys_and_may_move() -> None:
    bad, good = {"name": "a", "port": 99}, {"name": "b", "port": 1}
    assert refused({"ports": [bad, good]}, {"ports": [good, bad]}) == []
    assert refused({"ports": [bad, good]}, {"ports": [{"name": "c", "port": 2}, bad]}) == []
    assert refused({"ports": [bad]}, {"ports": [{"name": "a", "port": 98}]}) == ["ports[0].port"]
    assert refused({"ports": [bad]}, {"ports": [{"name": "b", "port": 99}]}) == ["ports[0].port"]


def test_objects_around_items_that_moved_are_unchanged() -> None:
    inner = struct(ports=keyed(struct(name=STRING, tags=listing(SHORT)), "name"), a=STRING, b=STRING)
    schema = struct(spec=inner | {"not": {"required": ["a"]}}, other=STRING)
    one, two = {"name": "a", "tags": ["x"]}, {"name": "b"}
    old = {"spec": {"a": "x", "ports": [one, two]}}

    def errors(spec: JsonObject) -> list[str]:
        return texts(schema, {"spec": spec, "other": "new"}, old)

    assert errors({"a": "x", "ports": [two, one]}) == []
    assert errors({"a": "x", "ports": [two, {"name": "a", "tags": ["y"]}]}) != []
    assert errors({"a": "x", "ports": [two, {"name": "c", "tags": ["x"]}]}) != []
    assert errors({"a": "x", "ports": [two, 5]}) != []
    assert errors({"a": "x", "b": "x", "ports": [two, one]}) != []
    assert errors({"a": "x", "b": [two, one]}) != []


def test_items_of_lists_without_keys_do_not_move() -> None:
    schema = struct(spec=struct(a=listing(keyed(struct(name=STRING), "name"))) | {"maxProperties": 0}, other=STRING)
    old = {"spec": {"a": [[{"name": "a"}], [{"name": "b"}]]}}
    assert texts(schema, {**old, "other": "new"}, old) == []
    assert texts(schema, {"spec": {"a": [[{"name": "b"}], [{"name": "a"}]]}}, old) != []


def test_items_of_other_lists_are_not_correlated() -> None:
    assert refused({"plain": ["long"]}, {"plain": ["long"], "limits": {}}) == []
    assert refused({"plain": ["long"]}, {"plain": ["long", "x"]}) == ["plain[0]"]


def test_the_kind_is_always_checked() -> None:
    assert refused({"kind": "B"}, {"kind": "B", "limits": {}}) == ["kind"]


def test_duplicates_may_stay() -> None:
    old = {"ports": [{"name": "a"}, {"name": "a"}]}
    assert refused(old, {**old, "limits": {}}) == []
    assert refused({}, old) == ["ports[1]"]


def test_a_write_to_the_status_checks_the_status() -> None:
    structural = Structural.parse(SCHEMA)
    old = {"spec": {"name": "abc"}, "status": {"phase": "long"}}
    assert structural.validate_status({**old}, old) == []
    assert structural.validate_status({"spec": {"name": "abc"}}, old) == []
    (error,) = structural.validate_status({**old, "status": {"phase": "longer"}}, old)
    assert (error.field, error.message) == ("status.phase", "Too long: may not be more than 1 byte")
    (error,) = structural.validate_status({**old, "status": "x"}, old)
    assert (error.field, error.message) == (
        "status",
        'Invalid value: "string":  in body must be of type object: "string"',
    )


def test_a_change_beside_an_unchanged_object_does_not_matter() -> None:
    part = struct(("missing",), inner=struct(("missing",), name=SHORT))
    schema = struct(all=mapping(part), other=STRING)
    old = {"all": {str(number): {"inner": {"name": "long"}} for number in range(200)}}
    new = {"all": {name: {"inner": {"name": "longer" if int(name) % 2 else "long"}} for name in old["all"]}}
    found = texts(schema, new, old)
    assert len(found) == 300
    assert {int(text.split(".")[1].partition(":")[0]) % 2 for text in found} == {1}


def test_large_objects_are_compared_once() -> None:
    """If the whole were compared for each of its parts, this test would reach its time limit."""
    item = struct(("missing",), name=STRING, n=INTEGER)
    schema = nest(keyed(item, "name"), 90)
    old = nested_value([{"name": str(number), "n": 1} for number in range(20_000)], 90)
    new = nested_value([{"name": str(number), "n": number // 19_999} for number in range(20_000)][::-1], 90)
    structural = Structural.parse(schema)
    assert len(structural.validate(new, old)) == MAX_ERRORS + 1


def nest(schema: JsonObject, levels: int) -> JsonObject:
    for _ in range(levels):
        schema = struct(a=schema)
    return schema


def nested_value(value: Any, levels: int) -> Any:
    for _ in range(levels):
        value = {"a": value}
    return value
