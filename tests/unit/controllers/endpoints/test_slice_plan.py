"""Updates of slices: as few as possible, and afterwards the slices hold exactly the wanted endpoints."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.controllers.endpoints import slice_plan
from bridgehead.controllers.endpoints.slice_plan import (
    Group,
    SlicePlan,
    Template,
    Wanted,
    group_of,
    name_prefix,
    plan_slices,
    to_json,
)
from bridgehead.objects.endpoint_slices import (
    TRIGGER_TIME_ANNOTATION,
    Endpoint,
    EndpointConditions,
    EndpointSlice,
    SlicePort,
)
from bridgehead.objects.meta import ObjectMeta, ObjectReference, OwnerReference

HTTP = SlicePort(name="http", protocol="TCP", port=80)
DNS = SlicePort(name="dns", protocol="UDP", port=53)
V4 = Group("IPv4", (HTTP,))
V4_OTHER = Group("IPv4", (DNS,))
V6 = Group("IPv6", (HTTP,))
EMPTY = Group("IPv4", ())
OWNER = OwnerReference(api_version="v1", kind="Service", name="web", uid="uid-web", controller=True)
TEMPLATE = Template("default", OWNER, {"app": "web"})


def endpoint(number: int, ready: bool = True) -> Endpoint:
    return Endpoint(
        addresses=(f"10.244.{number // 250}.{number % 250}",),
        conditions=EndpointConditions(ready=ready),
        target_ref=ObjectReference(kind="Pod", name=f"p{number}", uid=f"uid-{number}"),
    )


def endpoints(numbers: Iterable[int]) -> list[Endpoint]:
    return [endpoint(number) for number in numbers]


def slice_(name: str, group: Group, content: Sequence[Endpoint], template: Template = TEMPLATE) -> EndpointSlice:
    return EndpointSlice(
        metadata=msgspec.structs.replace(template.metadata(None), name=name, uid=f"uid-{name}"),
        address_type=group.address_type,
        endpoints=tuple(content),
        ports=group.ports,
    )


_suffixes = itertools.count()


def apply(existing: Sequence[EndpointSlice], plan: SlicePlan) -> list[EndpointSlice]:
    """Return the slices in the API afterwards."""
    after = {item.metadata.name: item for item in existing}
    for item in plan.update:
        assert item.metadata.name in after
        assert item.address_type == after[item.metadata.name].address_type, "the API refuses to change it"
        after[item.metadata.name] = item
    for item in plan.delete:
        del after[item.metadata.name]
    for item in plan.create:
        name = f"{item.metadata.generate_name}{next(_suffixes)}"
        after[name] = msgspec.structs.replace(item, metadata=msgspec.structs.replace(item.metadata, name=name))
    return list(after.values())


def content(slices: Iterable[EndpointSlice]) -> dict[Group, list[Endpoint]]:
    found: dict[Group, list[Endpoint]] = {}
    for item in slices:
        found.setdefault(group_of(item), []).extend(item.endpoints)
    return {group: sorted(members, key=repr) for group, members in found.items()}


def names(slices: Iterable[EndpointSlice]) -> list[str]:
    return [item.metadata.name for item in slices]


def test_new_slices_are_filled_completely():
    plan = plan_slices(TEMPLATE, {V4: endpoints(range(250))}, [], 100)
    assert [len(item.endpoints) for item in plan.create] == [100, 100, 50]
    assert not plan.update
    assert not plan.delete
    meta = plan.create[0].metadata
    assert (meta.generate_name, meta.namespace, meta.labels) == ("web-", "default", {"app": "web"})
    assert meta.owner_references == (OWNER,)
    assert meta.annotations == {}


def test_up_to_date_slices_are_not_written():
    existing = [slice_("a", V4, endpoints(range(100))), slice_("b", V4, endpoints(range(100, 130)))]
    assert not plan_slices(TEMPLATE, {V4: endpoints(reversed(range(130)))}, existing, 100)


def test_a_change_of_one_pod_of_a_thousand_writes_one_slice():
    existing = [slice_(f"s{n}", V4, endpoints(range(n * 100, n * 100 + 100))) for n in range(10)]
    wanted = endpoints(range(1000))
    wanted[555] = endpoint(555, ready=False)
    plan = plan_slices(TEMPLATE, {V4: wanted}, existing, 100)
    assert (names(plan.update), plan.create, plan.delete) == (["s5"], (), ())
    assert plan.update[0].endpoints[55] == endpoint(555, ready=False), "it keeps its place"


def test_a_new_pod_replaces_the_old_one_in_its_slice():
    existing = [slice_(f"s{n}", V4, endpoints(range(n * 100, n * 100 + 100))) for n in range(10)]
    wanted = [*endpoints(number for number in range(1000) if number != 555), endpoint(1000)]
    plan = plan_slices(TEMPLATE, {V4: wanted}, existing, 100)
    assert (names(plan.update), plan.create, plan.delete) == (["s5"], (), ())


def test_new_endpoints_go_to_the_fullest_slice_with_room():
    existing = [
        slice_("full", V4, endpoints(range(10))),
        slice_("half", V4, endpoints(range(10, 15))),
        slice_("most", V4, endpoints(range(20, 27))),
    ]
    held = [*range(15), *range(20, 27)]
    for added, updated in ((1, ["most"]), (3, ["most"]), (4, ["half"]), (5, ["half"]), (6, [])):
        plan = plan_slices(TEMPLATE, {V4: endpoints([*held, *range(50, 50 + added)])}, existing, 10)
        assert names(plan.update) == updated
        assert len(plan.create) == (0 if updated else 1)


def test_a_slice_that_is_written_anyway_takes_the_new_endpoints():
    existing = [slice_("a", V4, endpoints(range(9))), slice_("b", V4, endpoints(range(10, 15)))]
    wanted = endpoints([*range(9), *range(10, 14), 50])
    plan = plan_slices(TEMPLATE, {V4: wanted}, existing, 10)
    assert names(plan.update) == ["b"], "although the new one would fill a"


def test_without_endpoints_one_empty_slice_remains():
    plan = plan_slices(TEMPLATE, {EMPTY: []}, [], 100)
    assert [(item.endpoints, item.ports) for item in plan.create] == [((), ())]
    assert not plan_slices(TEMPLATE, {EMPTY: []}, [slice_("a", EMPTY, [])], 100)


def test_the_first_endpoint_uses_the_empty_slice_and_the_last_leaves_one():
    first = plan_slices(TEMPLATE, {V4: endpoints([1])}, [slice_("a", EMPTY, [])], 100)
    assert (names(first.update), first.create, first.delete) == (["a"], (), ())
    assert first.update[0].ports == (HTTP,)
    last = plan_slices(TEMPLATE, {EMPTY: []}, first.update, 100)
    assert (names(last.update), last.create, last.delete) == (["a"], (), ())
    assert last.update[0].endpoints == ()


def test_surplus_empty_slices_are_deleted():
    existing = [slice_("a", EMPTY, endpoints([1])), slice_("b", EMPTY, []), slice_("c", EMPTY, [])]
    plan = plan_slices(TEMPLATE, {EMPTY: []}, existing, 100)
    assert (plan.create, plan.update, names(plan.delete)) == ((), (), ["a", "c"])


def test_slices_with_outdated_ports_are_reused():
    plan = plan_slices(TEMPLATE, {V4_OTHER: endpoints([1])}, [slice_("a", V4, endpoints([1]))], 100)
    assert (names(plan.update), plan.create, plan.delete) == (["a"], (), ())
    assert plan.update[0].ports == (DNS,)


def test_a_slices_address_type_is_never_changed():
    plan = plan_slices(TEMPLATE, {V6: endpoints([1])}, [slice_("a", V4, endpoints([1]))], 100)
    assert (plan.update, len(plan.create), names(plan.delete)) == ((), 1, ["a"])


def test_slices_of_an_earlier_service_of_that_name_are_deleted():
    old = Template("default", msgspec.structs.replace(OWNER, uid="uid-old"), {"app": "web"})
    plan = plan_slices(TEMPLATE, {V4: endpoints([1])}, [slice_("a", V4, endpoints([1]), old)], 100)
    assert (plan.update, len(plan.create), names(plan.delete)) == ((), 1, ["a"])


def test_changed_labels_are_written_to_every_slice():
    existing = [slice_("a", V4, endpoints(range(10))), slice_("b", V4, endpoints(range(10, 20)))]
    changed = Template("default", OWNER, {"app": "web", "tier": "front"})
    plan = plan_slices(changed, {V4: endpoints(range(20))}, existing, 10)
    assert names(plan.update) == ["a", "b"]
    assert plan.update[0].metadata.labels == {"app": "web", "tier": "front"}


@pytest.mark.parametrize(
    ("annotations", "before", "after"),
    [
        (None, {"mine": "1"}, None),
        ({}, {}, None),
        ({}, {"mine": "1"}, {}),
        ({"a": "1"}, {}, {"a": "1"}),
        ({"a": "1"}, {"a": "1", TRIGGER_TIME_ANNOTATION: "x"}, None),
    ],
)
def test_annotations_follow_the_owner_or_are_not_changed(annotations, before, after):
    existing = slice_("a", V4, endpoints([1]))
    meta = msgspec.structs.replace(existing.metadata, annotations=before)
    template = Template("default", OWNER, {"app": "web"}, annotations=annotations)
    plan = plan_slices(template, {V4: endpoints([1])}, [msgspec.structs.replace(existing, metadata=meta)], 100)
    assert [item.metadata.annotations for item in plan.update] == ([] if after is None else [after])


def test_a_new_trigger_time_is_written_only_with_another_change():
    timed = Template("default", OWNER, {"app": "web"}, trigger_time="2026-01-01T00:00:00Z")
    existing = slice_("a", V4, endpoints([1]))
    assert not plan_slices(timed, {V4: endpoints([1])}, [existing], 100)
    written = plan_slices(timed, {V4: endpoints([1, 2])}, [existing], 100).update[0]
    assert written.metadata.annotations == {TRIGGER_TIME_ANNOTATION: "2026-01-01T00:00:00Z"}
    later = plan_slices(TEMPLATE, {V4: endpoints([1])}, [written], 100).update[0]
    assert later.metadata.annotations == {}


def test_required_fields_are_sent_even_when_empty():
    assert to_json(EndpointSlice(metadata=ObjectMeta(name="a"))) == {
        "addressType": "IPv4",
        "endpoints": [],
        "metadata": {"name": "a"},
    }


def test_a_name_that_is_too_long_is_truncated_in_the_prefix():
    assert name_prefix("web") == "web-"
    assert name_prefix("a" * 253) == "a" * 253


# --- Properties ------------------------------------------------------------------------------------------

groups = st.sampled_from([V4, V4_OTHER, V6])
members = st.dictionaries(st.integers(0, 40), st.booleans(), max_size=30)


@st.composite
def wishes(draw: st.DrawFn) -> Wanted:
    wanted = {group: [endpoint(*item) for item in draw(members).items()] for group in draw(st.sets(groups))}
    wanted = {group: content for group, content in wanted.items() if content}
    return wanted or {EMPTY: []}


@given(st.lists(wishes(), min_size=1, max_size=5), st.integers(1, 10))
def test_applying_the_plan_gives_the_wanted_endpoints_and_is_idempotent(steps: list[Wanted], capacity: int):
    existing: list[EndpointSlice] = []
    for wanted in steps:
        existing = apply(existing, plan_slices(TEMPLATE, wanted, existing, capacity))
        assert content(existing) == {group: sorted(content, key=repr) for group, content in wanted.items()}
        assert all(len(item.endpoints) <= capacity for item in existing)
        assert all(item.endpoints or wanted == {EMPTY: []} for item in existing)
        assert not plan_slices(TEMPLATE, wanted, existing, capacity)


@given(members, st.data(), st.integers(1, 10))
def test_one_changed_endpoint_writes_one_slice(before: dict[int, bool], data: st.DataObject, capacity: int):
    if not before:
        return
    existing = apply([], plan_slices(TEMPLATE, {V4: [endpoint(*item) for item in before.items()]}, [], capacity))
    number = data.draw(st.sampled_from(sorted(before)))
    flipped = {**before, number: not before[number]}
    replaced = {**{other: ready for other, ready in before.items() if other != number}, 99: True}
    for after in (flipped, replaced):
        plan = plan_slices(TEMPLATE, {V4: [endpoint(*item) for item in after.items()]}, existing, capacity)
        assert (len(plan.create), len(plan.update), len(plan.delete)) == (0, 1, 0)


def test_the_work_grows_with_the_endpoints_also_where_a_slice_has_one(monkeypatch):
    calls = 0
    size = slice_plan._size

    def count(draft):
        nonlocal calls
        calls += 1
        return size(draft)

    monkeypatch.setattr(slice_plan, "_size", count)
    existing = [slice_(f"s{number}", V4, endpoints([number])) for number in range(300)]
    plan = plan_slices(TEMPLATE, {V4: endpoints(range(600))}, existing, 1)
    assert (len(plan.create), plan.update, plan.delete) == (300, (), ())
    assert calls <= 1000  # not for each pair of a new endpoint and a slice
