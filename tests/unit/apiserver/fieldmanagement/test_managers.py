"""managedFields after creates, updates and patches."""

from __future__ import annotations

import pytest

from bridgehead.apiserver.fieldmanagement.managers import (
    Kind,
    Writer,
    after_create,
    after_update,
    manager_of,
    reset_paths,
    same_but_times,
)

from .kinds import small

T0, T1, T2 = "2026-11-21T03:48:41Z", "2026-11-21T03:49:41Z", "2026-11-21T03:50:41Z"
KIND = small()
ONE, TWO = Writer("one"), Writer("two")


def entry(manager, fields, time=T0, operation="Update", **more):
    return {
        "manager": manager,
        "operation": operation,
        "apiVersion": "v1",
        "time": time,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        **more,
    }


def test_a_create():
    entries = after_create(KIND, {"metadata": {"name": "s"}, "b": 1, "a": "1"}, None, ONE, T0)
    assert entries == [entry("one", {"f:a": {}, "f:b": {}})]
    assert list(entries[0]) == ["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1"]
    assert after_create(KIND, {"metadata": {"name": "s"}}, None, ONE, T0) == []


def test_an_object_created_with_managed_fields_keeps_what_it_does_not_contain():
    sent = [entry("old", {"f:a": {}, "f:labels": {"f:gone": {}}})]
    entries = after_create(KIND, {"a": "1"}, sent, ONE, T1)
    assert entries == [entry("old", {"f:labels": {"f:gone": {}}}), entry("one", {"f:a": {}}, T1)]
    assert after_create(KIND, {"a": "1"}, [{}], ONE, T1) == [entry("one", {"f:a": {}}, T1)]


def test_an_update_takes_the_fields_that_it_changes():
    base = [entry("one", {"f:a": {}, "f:b": {}})]
    entries = after_update(KIND, {"a": "1", "b": 1}, {"a": "2", "b": 1}, base, None, TWO, T1)
    assert entries == [entry("one", {"f:b": {}}), entry("two", {"f:a": {}}, T1)]
    again = after_update(KIND, {"a": "2", "b": 1}, {"a": "3", "b": 1}, entries, None, TWO, T2)
    assert again == [entry("one", {"f:b": {}}), entry("two", {"f:a": {}}, T2)]


def test_an_update_without_a_change_leaves_the_entries():
    base = [entry("one", {"f:a": {}})]
    assert after_update(KIND, {"a": "1"}, {"a": "1"}, base, None, TWO, T1) is base


def test_removed_fields_lose_their_owners_and_no_time_changes():
    base = [entry("one", {"f:a": {}, "f:labels": {".": {}, "f:x": {}, "f:y": {}}})]
    old, new = {"a": "1", "labels": {"x": "1", "y": "2"}}, {"a": "1", "labels": {"x": "1"}}
    assert after_update(KIND, old, new, base, None, TWO, T1) == [
        entry("one", {"f:a": {}, "f:labels": {".": {}, "f:x": {}}})
    ]
    assert after_update(KIND, {"a": "1"}, {}, [entry("one", {"f:a": {}})], None, TWO, T1) == []


def test_subresources_are_managers_of_their_own():
    base = [entry("one", {"f:a": {}})]
    status = Writer("one", subresource="status")
    entries = after_update(KIND, {"a": "1"}, {"a": "1", "b": 2}, base, None, status, T1)
    assert entries == [entry("one", {"f:a": {}}), entry("one", {"f:b": {}}, T1, subresource="status")]


def test_fields_that_the_write_resets_are_not_owned():
    kind = Kind(KIND.root, "v1", "Small", {"": reset_paths("nested")})
    entries = after_create(kind, {"a": "1", "nested": {"p": "1"}}, None, ONE, T0)
    assert entries == [entry("one", {"f:a": {}})]


@pytest.mark.parametrize("sent", [[], [{}]])
def test_a_reset_removes_all_entries(sent):
    base = [entry("one", {"f:a": {}})]
    assert after_update(KIND, {"a": "1"}, {"a": "2"}, base, sent, TWO, T1) == []
    # Afterwards nobody is tracked, until somebody applies.
    assert after_update(KIND, {"a": "2"}, {"a": "3"}, [], None, TWO, T1) == []


def test_a_client_may_set_the_entries():
    base = [entry("one", {"f:a": {}})]
    sent = [entry("new", {"f:a": {}}, operation="Apply")]
    assert after_update(KIND, {"a": "1"}, {"a": "1"}, base, sent, TWO, T1) == sent
    assert after_update(KIND, {"a": "1"}, {"a": "1"}, base, sent, Writer("two", subresource="status"), T1) == base


@pytest.mark.parametrize(
    "change",
    [
        {"operation": "Patch"},
        {"apiVersion": ""},
        {"fieldsType": "FieldsV2"},
        {"fieldsV1": {"spec": {}}},
        {"fieldsV1": []},
    ],
)
def test_unusable_entries_from_clients_are_ignored(change):
    base = [entry("one", {"f:a": {}})]
    sent = [{**entry("new", {"f:b": {}}), **change}]
    if change == {"fieldsV1": []}:  # an empty list counts as no fields
        sent[0]["fieldsV1"] = [1]
    assert after_update(KIND, {"a": "1"}, {"a": "1"}, base, sent, TWO, T1) == base


def test_entries_of_versions_that_are_not_served_are_dropped():
    base = [{**entry("old", {"f:a": {}}), "apiVersion": "v0"}]
    assert after_update(KIND, {"a": "1"}, {"a": "1", "b": 1}, base, None, ONE, T1) == [entry("one", {"f:b": {}}, T1)]


def test_the_oldest_updaters_are_merged():
    entries = []
    labels: dict[str, str] = {}
    for number in range(12):
        new = {**labels, f"l{number:02}": "x"}
        time = f"2026-11-21T03:{number:02}:00Z"
        base = entries or [entry("applier", {"f:a": {}}, operation="Apply")]
        writer = Writer(f"m{number:02}")
        old_object, new_object = {"a": "1", "labels": labels}, {"a": "1", "labels": new}
        entries = after_update(KIND, old_object, new_object, base, None, writer, time)
        labels = new
    updaters = [one for one in entries if one["operation"] == "Update"]
    assert [one["manager"] for one in updaters] == ["ancient-changes", *(f"m{n:02}" for n in range(3, 12))]
    assert updaters[0]["fieldsV1"] == {"f:labels": {"f:l00": {}, "f:l01": {}, "f:l02": {}}}
    assert updaters[0]["time"] == "2026-11-21T03:02:00Z"
    assert entries[0]["manager"] == "applier"


def test_times_alone_are_no_difference():
    assert same_but_times([entry("one", {"f:a": {}}, T0)], [entry("one", {"f:a": {}}, T1)])
    assert not same_but_times([entry("one", {"f:a": {}})], [entry("one", {"f:b": {}})])
    assert not same_but_times([entry("one", {"f:a": {}})], [])


@pytest.mark.parametrize(
    ("user_agent", "manager"),
    [
        ("kubectl/v1.36.0 (linux/amd64) kubernetes/abcdef", "kubectl"),
        ("curl", "curl"),
        ("a\tb/1", "ab"),
        ("", "unknown"),
        ("é" * 100, "é" * 64),
    ],
)
def test_names_from_user_agents(user_agent, manager):
    assert manager_of(user_agent) == manager
