"""Server-side apply: ownership, conflicts, removal, and its algebra as properties."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.apiserver.fieldmanagement.applied_configuration import field_set
from bridgehead.apiserver.fieldmanagement.applying import Applied, apply
from bridgehead.apiserver.fieldmanagement.errors import BadConfiguration, Conflicts
from bridgehead.apiserver.fieldmanagement.fieldset import paths
from bridgehead.apiserver.fieldmanagement.last_applied import ANNOTATION
from bridgehead.apiserver.fieldmanagement.managers import Writer, after_create, after_update, same_but_times
from bridgehead.apiserver.fieldmanagement.path_steps import path_text

from .kinds import kind_of, small

T0, T1, T2 = "2026-11-21T03:48:41Z", "2026-11-21T03:49:41Z", "2026-11-21T03:50:41Z"


def configured(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Small", "metadata": {"name": "s"}, **fields}


def applied(
    state: Applied, manager: str, configuration: dict[str, Any], *, force: bool = False, time: str = T1
) -> Applied:
    return apply(small(), state.obj, state.entries, configuration, Writer(manager, "Apply"), time, force=force)


NOTHING = Applied({}, [])


def content(state: Applied) -> dict[str, Any]:
    return {name: value for name, value in state.obj.items() if name not in ("apiVersion", "kind", "metadata")}


def owned(state: Applied, manager: str) -> str:
    texts = [path_text(p) for one in state.entries if one["manager"] == manager for p in paths(one["fieldsV1"])]
    return " ".join(sorted(texts))


def conflicts_of(state: Applied, manager: str, configuration: dict[str, Any]) -> list[str]:
    with pytest.raises(Conflicts) as caught:
        applied(state, manager, configuration)
    return [f"{conflict.manager}: {path_text(conflict.path)}" for conflict in caught.value.conflicts]


def test_apply_creates_and_owns():
    state = applied(NOTHING, "one", configured(a="1", items=[{"name": "n", "x": "1"}]))
    assert content(state) == {"a": "1", "items": [{"name": "n", "x": "1"}]}
    assert owned(state, "one") == '.a .items[name="n"] .items[name="n"].name .items[name="n"].x'


def test_an_applied_resource_version_stays_when_the_last_owned_metadata_goes():
    """Otherwise, the version would not be compared with that of the stored object."""
    kind, writer = kind_of("ConfigMap"), Writer("one", "Apply")
    configuration = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "labels": {"a": "b"}}}
    state = apply(kind, {}, [], configuration, writer, T0, force=False)
    configuration["metadata"] = {"name": "c", "resourceVersion": "1"}
    state = apply(kind, state.obj, state.entries, configuration, writer, T1, force=False)
    assert state.obj["metadata"] == {"name": "c", "resourceVersion": "1"}
    assert state.entries == []


def test_what_an_applier_stops_sending_is_removed():
    state = applied(
        NOTHING, "one", configured(a="1", b=1, labels={"x": "1", "y": "2"}, nested={"p": "1", "q": {"k": "v"}})
    )
    state = applied(state, "one", configured(a="1", labels={"x": "1"}))
    assert content(state) == {"a": "1", "labels": {"x": "1"}}
    assert owned(state, "one") == ".a .labels.x"


def test_a_shared_field_stays_for_the_other_owner():
    state = applied(NOTHING, "one", configured(a="1", labels={"x": "1"}))
    state = applied(state, "two", configured(a="1", labels={"x": "1", "y": "1"}))
    state = applied(state, "one", configured(b=1))
    assert content(state) == {"a": "1", "b": 1, "labels": {"x": "1", "y": "1"}}
    assert owned(state, "one") == ".b"
    assert owned(state, "two") == ".a .labels.x .labels.y"


def test_an_element_stays_while_others_own_parts_of_it():
    state = applied(NOTHING, "one", configured(items=[{"name": "n", "x": "1"}]))
    state = applied(state, "two", configured(items=[{"name": "n", "inner": {"y": "2"}}]))
    state = applied(state, "one", configured())
    assert content(state) == {"items": [{"name": "n", "inner": {"y": "2"}}]}
    state = applied(state, "two", configured())
    assert content(state) == {}
    assert state.entries == []


def test_conflicts_and_force():
    state = applied(NOTHING, "one", configured(a="1", b=1, whole=["1"]))
    assert conflicts_of(state, "two", configured(a="2", b=1, whole=["2"])) == ['"one": .a', '"one": .whole']
    state = applied(state, "two", configured(a="2", b=1), force=True)
    assert content(state) == {"a": "2", "b": 1, "whole": ["1"]}
    assert owned(state, "one") == ".b .whole"
    assert owned(state, "two") == ".a .b"


def test_conflicts_name_updaters_with_their_version_and_subresource():
    live = configured(a="1", b=1)
    entries = after_create(small(), {"a": "1"}, None, Writer("editor"), T0)
    entries = after_update(small(), {"a": "1"}, live, entries, None, Writer("scaler", subresource="scale"), T1)
    found = conflicts_of(Applied(live, entries), "one", configured(a="2", b=2))
    assert found == ['"editor" using v1: .a', '"scaler" with subresource "scale" using v1: .b']


def test_an_update_takes_a_field_from_its_applier():
    state = applied(NOTHING, "one", configured(a="1", b=1))
    new = {**state.obj, "a": "2"}
    entries = after_update(small(), state.obj, new, state.entries, None, Writer("editor"), T1)
    assert conflicts_of(Applied(new, entries), "one", configured(a="1", b=1)) == ['"editor" using v1: .a']
    # The applier gives it up: the value stays, because the editor owns it.
    state = applied(Applied(new, entries), "one", configured(b=1))
    assert content(state) == {"a": "2", "b": 1}


def test_an_untracked_object_belongs_to_before_first_apply():
    live = configured(a="1", b=1)
    assert conflicts_of(Applied(live, []), "one", configured(a="2")) == ['"before-first-apply" using v1: .a']
    state = applied(Applied(live, []), "one", configured(a="1"))
    assert owned(state, "before-first-apply") == ".a .b"


def test_a_second_equal_apply_changes_nothing():
    first = applied(NOTHING, "one", configured(a="1"), time=T0)
    second = applied(first, "one", configured(a="1"), time=T2)
    assert second == first


def test_fields_that_the_subresource_resets_are_not_owned():
    kind = kind_of("Pod")
    kind.reset["status"] = {"f:spec": {}}
    live = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": "n"}}
    wanted = {**live, "spec": {"nodeName": "m"}, "status": {"phase": "Running"}}
    state = apply(kind, live, [], wanted, Writer("one", "Apply", "status"), T0, force=False)
    assert owned(state, "one") == ".status.phase"
    kind.reset.clear()


def test_a_bad_configuration_names_the_object():
    with pytest.raises(BadConfiguration) as caught:
        apply(
            kind_of("Service"),
            {},
            [],
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "d"}, "spec": {"x": 1}},
            Writer("one", "Apply"),
            T0,
            force=False,
        )
    assert str(caught.value) == (
        "failed to create typed patch object (d/s; /v1, Kind=Service): .spec.x: field not declared in schema"
    )


# --- kubectl's change from client-side apply


def _client_side_applied(live: dict[str, Any], last: dict[str, Any]) -> Applied:
    meta = {"name": "c", "annotations": {ANNOTATION: json.dumps(last)}}
    live = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, **live}
    entries = after_create(kind_of("ConfigMap"), live, None, Writer("kubectl-client-side-apply"), T0)
    return Applied(live, entries)


def _config_map(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}


def _apply_config_map(state: Applied, manager: str, configuration: dict[str, Any]) -> Applied:
    writer = Writer(manager, "Apply")
    return apply(kind_of("ConfigMap"), state.obj, state.entries, configuration, writer, T1, force=False)


def test_kubectl_takes_over_what_it_applied_by_itself():
    state = _client_side_applied({"data": {"a": "1"}}, _config_map(a="1"))
    state = _apply_config_map(state, "kubectl", _config_map(a="2"))
    assert state.obj["data"] == {"a": "2"}
    assert owned(state, "kubectl") == ".data.a"
    assert json.loads(state.obj["metadata"]["annotations"][ANNOTATION]) == _config_map(a="2")
    assert state.obj["metadata"]["annotations"][ANNOTATION].endswith("}\n")


def test_kubectl_conflicts_with_what_others_changed_since():
    state = _client_side_applied({"data": {"a": "changed", "b": "1"}}, _config_map(a="1", b="1"))
    with pytest.raises(Conflicts) as caught:
        _apply_config_map(state, "kubectl", _config_map(a="2", b="2"))
    assert [path_text(conflict.path) for conflict in caught.value.conflicts] == [".data.a"]


@pytest.mark.parametrize("last", [{"apiVersion": "v0"}, [], {"apiVersion": "v1", "nonsense": 1}])
def test_an_unusable_annotation_allows_nothing(last):
    state = _client_side_applied({"data": {"a": "1"}}, last)
    with pytest.raises(Conflicts):
        _apply_config_map(state, "kubectl", _config_map(a="2"))


def test_other_managers_do_not_touch_the_annotation():
    state = _client_side_applied({"data": {"a": "1"}}, _config_map(a="1"))
    with pytest.raises(Conflicts):
        _apply_config_map(state, "other", _config_map(a="2"))
    after = _apply_config_map(state, "other", _config_map(a="1"))
    assert after.obj["metadata"] == state.obj["metadata"]


# --- properties

_TEXT = st.sampled_from(["1", "2"])
_NAMES = st.sampled_from(["n", "m", "o"])
_ITEM = st.fixed_dictionaries(
    {},
    optional={
        "x": _TEXT,
        "inner": st.dictionaries(st.sampled_from(["y", "z"]), _TEXT, min_size=1),
    },
)


def _items(elements: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"name": name, **element} for name, element in elements.items()]


_CONTENT = st.fixed_dictionaries(
    {},
    optional={
        "a": _TEXT,
        "b": st.integers(0, 2),
        "labels": st.dictionaries(_NAMES, _TEXT, min_size=1),
        "items": st.dictionaries(_NAMES, _ITEM, min_size=1).map(_items),
        "tags": st.lists(_NAMES, unique=True, min_size=1),
        "whole": st.lists(_TEXT),
        "fixed": st.dictionaries(_NAMES, _TEXT),
        "nested": st.fixed_dictionaries({"p": _TEXT}, optional={"q": st.dictionaries(_NAMES, _TEXT, min_size=1)}),
        "free": st.dictionaries(_NAMES, st.one_of(_TEXT, st.dictionaries(_NAMES, _TEXT, min_size=1)), min_size=1),
    },
)


def _forced(state: Applied, manager: str, fields: dict[str, Any], time: str = T1) -> Applied:
    return applied(state, manager, configured(**fields), force=True, time=time)


@given(_CONTENT, _CONTENT, _CONTENT)
def test_apply_is_idempotent(one, two, again):
    state = _forced(_forced(_forced(NOTHING, "one", one), "two", two), "one", again)
    repeated = _forced(state, "one", again, T2)
    assert repeated.obj == state.obj
    assert same_but_times(repeated.entries, state.entries)


@given(_CONTENT, _CONTENT)
def test_only_the_last_configuration_of_a_single_applier_counts(before, after):
    state = _forced(_forced(NOTHING, "one", before), "one", after)
    assert _normal(content(state)) == _normal(after)
    assert owned(state, "one") == owned(_forced(NOTHING, "one", after), "one")


@given(_CONTENT, _CONTENT)
def test_force_takes_every_field_of_the_configuration(one, two):
    state = _forced(_forced(NOTHING, "one", one), "two", two)
    wanted = {path_text(path) for path in paths(field_set(configured(**two), small().root))}
    assert wanted == set(owned(state, "two").split(" ")) - {""}
    without_other = _forced(state, "one", {})
    assert _normal(content(without_other)) == _normal(two)


@given(_CONTENT, _CONTENT)
def test_the_order_of_disjoint_applies_does_not_matter(one, two):
    try:
        forward = applied(applied(NOTHING, "one", configured(**one)), "two", configured(**two))
        backward = applied(applied(NOTHING, "two", configured(**two)), "one", configured(**one))
    except Conflicts:
        return
    assert _normal(content(forward)) == _normal(content(backward))
    assert owned(forward, "one") == owned(backward, "one")
    assert owned(forward, "two") == owned(backward, "two")


@given(_CONTENT, _CONTENT)
def test_an_owner_that_leaves_removes_what_nobody_else_owns(one, two):
    try:
        state = applied(applied(NOTHING, "one", configured(**one)), "two", configured(**two))
    except Conflicts:
        return
    left = applied(state, "one", configured())
    assert _normal(content(left)) == _normal(two)
    assert owned(left, "two") == owned(state, "two")


@given(_CONTENT, _CONTENT)
def test_every_owned_path_exists(one, two):
    state = _forced(_forced(NOTHING, "one", one), "two", two)
    present = {path_text(path) for path in paths(field_set(state.obj, small().root))}
    for entry in state.entries:
        assert {path_text(path) for path in paths(entry["fieldsV1"])} <= present


def _normal(value: Any, name: str = "") -> Any:
    """Return a value without what merges do not decide: the order of keyed lists and sets, and empty containers."""
    if isinstance(value, dict):
        kept = {key: _normal(item, key) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item not in ({}, [])}
    if isinstance(value, list) and name in ("items", "tags"):
        return sorted((_normal(item) for item in value), key=json.dumps)
    return value
