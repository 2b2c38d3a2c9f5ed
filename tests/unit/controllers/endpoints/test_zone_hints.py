"""The zone that each endpoint is for, with `topology-mode: Auto`, as tables."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.controllers.endpoints import zone_hints
from bridgehead.controllers.endpoints.slice_endpoints import wanted_endpoints
from bridgehead.controllers.endpoints.slice_plan import Group, SlicePlan, Template, plan_slices
from bridgehead.controllers.endpoints.zone_hints import HintsResult, carry_over, plan_hints
from bridgehead.objects.core import Service, ServicePort
from bridgehead.objects.endpoint_slices import (
    Endpoint,
    EndpointConditions,
    EndpointHints,
    EndpointSlice,
    ForNode,
    ForZone,
    SlicePort,
)
from bridgehead.objects.meta import ObjectMeta, OwnerReference
from tests.unit.controllers.endpoints.sample_objects import node, pod, service

OWNER = OwnerReference(api_version="v1", kind="Service", name="web", uid="uid-web")
TEMPLATE = Template("default", OWNER, {"app": "web"})
GROUP = Group("IPv4", (SlicePort(name="http", protocol="TCP", port=80),))
NO_NODES = "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes"
OVERLOADED = "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold"


def endpoint(number: int, zone: str, *, ready: bool | None = True, hint: str = "") -> Endpoint:
    hints = EndpointHints(for_zones=(ForZone(name=hint),)) if hint else None
    address = f"10.244.{number // 250}.{number % 250 + 1}"
    return Endpoint(addresses=(address,), zone=zone or None, conditions=EndpointConditions(ready=ready), hints=hints)


def endpoints(zones: str, first: int = 0) -> list[Endpoint]:
    """Return an endpoint for each letter, its zone; `-` is one of zone a that is not ready, `?` has no zone."""
    return [
        endpoint(first + index, {"?": "", "-": "a"}.get(letter, letter), ready=letter != "-")
        for index, letter in enumerate(zones)
    ]


def written(name: str, members: Sequence[Endpoint], **changes: Any) -> EndpointSlice:
    meta = ObjectMeta(name=name, namespace="default", labels=dict(TEMPLATE.labels), owner_references=(OWNER,))
    item = EndpointSlice(metadata=meta, address_type="IPv4", ports=GROUP.ports, endpoints=tuple(members))
    return msgspec.structs.replace(item, **changes)


def hints_of(item: EndpointSlice) -> str:
    """The zones for which the endpoints are; `.` for none."""
    return "".join(e.hints.for_zones[0].name if e.hints is not None else "." for e in item.endpoints)


def shares(**parts: float) -> Mapping[str, float]:
    return parts


def plan(
    members: Sequence[Endpoint], existing: Sequence[EndpointSlice], share: Mapping[str, float], capacity: int = 100
) -> tuple[SlicePlan, HintsResult]:
    """Plan slices and hints for one family, as the controller does."""
    first = plan_slices(TEMPLATE, carry_over({GROUP: members}, existing), existing, capacity)
    result, results = plan_hints(first, existing, TEMPLATE, share)
    return result, results["IPv4"]


def stored(existing: Sequence[EndpointSlice], plan: SlicePlan) -> list[EndpointSlice]:
    """The slices as they are once the plan is carried out."""
    found = {item.metadata.name: item for item in existing}
    found.update({item.metadata.name: item for item in plan.update})
    for item in plan.delete:
        del found[item.metadata.name]
    for item in plan.create:
        name = next(name for number in itertools.count() if (name := f"new-{number}") not in found)
        found[name] = msgspec.structs.replace(item, metadata=msgspec.structs.replace(item.metadata, name=name))
    return list(found.values())


@pytest.mark.parametrize(
    ("annotations", "wanted"),
    [
        ({}, False),
        ({"service.kubernetes.io/topology-mode": "Auto"}, True),
        ({"service.kubernetes.io/topology-mode": "auto"}, True),
        ({"service.kubernetes.io/topology-mode": "AUTO"}, False),
        ({"service.kubernetes.io/topology-mode": "Disabled"}, False),
        ({"service.kubernetes.io/topology-aware-hints": "auto"}, True),
        ({"service.kubernetes.io/topology-aware-hints": "", "service.kubernetes.io/topology-mode": "Auto"}, False),
    ],
)
def test_hints_are_requested_by_annotation_or_traffic_distribution(annotations: dict[str, str], wanted: bool) -> None:
    assert zone_hints.is_wanted(Service(metadata=ObjectMeta(name="web", annotations=annotations))) is wanted


def test_the_annotation_overrides_the_traffic_distribution() -> None:
    asked = service(ServicePort(port=80), traffic_distribution="PreferClose")
    annotations = {"service.kubernetes.io/topology-mode": "Auto"}
    asked = msgspec.structs.replace(asked, metadata=msgspec.structs.replace(asked.metadata, annotations=annotations))

    ((found,),) = wanted_endpoints(asked, [pod()], {"node1": node("node1", "a")}.get).values()

    assert (found.zone, found.hints) == ("a", None)


@pytest.mark.parametrize(
    ("share", "zones", "hints"),
    [
        (shares(a=0.45, b=0.55), "ab", "ab"),
        (shares(a=0.5, b=0.5), "aaab", "baab"),
        (shares(a=0.5, b=0.5), "aaaabbb", "aaaabbb"),  # 3.5 for each: half an endpoint is not worth it
        (shares(a=0.3, b=0.7), "aaabb", "baabb"),  # 1.5 and 3.5: one goes over
        (shares(a=0.75, b=0.25), "abbb", "aaab"),
        (shares(a=0.35, b=0.35, c=0.3), "abccaaabca", "bbccaaabca"),  # topologycache_test.go has this one
        (shares(a=0.5, b=0.5), "a-b-", "a.b."),
        (shares(a=0.5, b=0.5), "aaabbbx", "aaabbbx"),  # a zone without ready nodes keeps its own
    ],
)
def test_zones_with_surplus_endpoints_give_to_zones_that_lack_them(
    share: Mapping[str, float], zones: str, hints: str
) -> None:
    result, hints_result = plan(endpoints(zones), [], share)

    assert [hints_of(item) for item in result.create] == [hints]
    assert hints_result == HintsResult(zones=Counter(hints.replace(".", "")))


@pytest.mark.parametrize(
    ("share", "zones", "problem"),
    [
        ({}, "ab", NO_NODES),
        (shares(a=0.3, b=0.4, c=0.3), "ab", "Insufficient number of endpoints (2 endpoints, 3 zones)"),
        (shares(a=0.5, b=0.5), "", "Insufficient number of endpoints (0 endpoints, 2 zones)"),
        (shares(a=0.5, b=0.5), "a-", "Insufficient number of endpoints (1 endpoints, 2 zones)"),
        (shares(a=0.7, b=0.3), "ab", f"{OVERLOADED} (2 endpoints, 2 zones)"),  # 2 and 1 at least
        (shares(a=0.5, b=0.5), "aab", f"{OVERLOADED} (3 endpoints, 2 zones)"),  # 2 and 2
        (shares(a=0.34, b=0.33, c=0.33), "abcc", f"{OVERLOADED} (4 endpoints, 3 zones)"),  # 2, 2 and 2
        (shares(a=0.5, b=0.25, c=0.25), "abc", f"{OVERLOADED} (3 endpoints, 3 zones)"),
        (shares(a=0.5, b=0.5), "aabb??", "One or more endpoints do not have a zone specified"),
    ],
)
def test_no_hints_are_set_without_enough_endpoints_or_zones(
    share: Mapping[str, float], zones: str, problem: str
) -> None:
    before = [written("old", [endpoint(200, "a", hint="a")])]
    result, hints_result = plan(endpoints(zones), before, share)

    assert hints_result.problem == problem
    assert hints_result.zones is None
    assert {hints_of(item).replace(".", "") for item in stored(before, result)} == {""}


def test_correct_hints_are_not_written_again() -> None:
    share = shares(a=0.5, b=0.5)
    first, _ = plan(endpoints("aaab"), [], share)
    there = stored([], first)

    again, hints_result = plan(endpoints("aaab"), there, share)

    assert not again
    assert hints_result == HintsResult(zones={"a": 2, "b": 2})


def test_without_the_annotation_hints_are_removed() -> None:
    there = stored([], plan(endpoints("ab"), [], shares(a=0.5, b=0.5))[0])

    result = plan_slices(TEMPLATE, {GROUP: endpoints("ab")}, there, 100)

    assert [hints_of(item) for item in result.update] == [".."]


def test_slices_whose_hints_stay_valid_are_not_written() -> None:
    """One endpoint is added in a new slice; the full slices are not written."""
    share = shares(a=0.5, b=0.5)
    there = stored([], plan(endpoints("abababab"), [], share, capacity=4)[0])

    result, hints_result = plan([*endpoints("abababab"), *endpoints("a", first=9)], there, share, capacity=4)

    assert ([hints_of(item) for item in result.create], result.update) == (["a"], ())
    assert hints_result == HintsResult(zones={"a": 5, "b": 4})


def test_slices_whose_hints_leave_too_few_for_other_zones_are_written() -> None:
    there = stored([], plan(endpoints("aabb"), [], shares(a=0.5, b=0.5))[0])

    result, hints_result = plan(endpoints("aabb"), there, shares(a=0.25, b=0.75))

    assert [hints_of(item) for item in result.update] == ["babb"]
    assert hints_result == HintsResult(zones={"a": 1, "b": 3})


@pytest.mark.parametrize(
    "hints",
    [
        None,
        EndpointHints(for_zones=(ForZone(name="gone"),)),
        EndpointHints(for_zones=(ForZone(name="a"),), for_nodes=(ForNode(name="node1"),)),
    ],
)
def test_slices_with_outdated_hints_are_written(hints: EndpointHints | None) -> None:
    before = [written("old", [msgspec.structs.replace(item, hints=hints) for item in endpoints("ab")])]

    result, _ = plan(endpoints("ab"), before, shares(a=0.5, b=0.5))

    assert [(item.metadata.name, hints_of(item)) for item in result.update] == [("old", "ab")]


def test_each_family_has_its_own_hints() -> None:
    wanted = {GROUP: endpoints("ab"), Group("IPv6", GROUP.ports): endpoints("a")}
    result, results = plan_hints(plan_slices(TEMPLATE, wanted, [], 100), [], TEMPLATE, shares(a=0.5, b=0.5))

    assert sorted(hints_of(item) for item in result.create) == [".", "ab"]
    assert {family: hints_result.zones for family, hints_result in results.items()} == {
        "IPv4": {"a": 1, "b": 1},
        "IPv6": None,
    }


@pytest.mark.parametrize(
    ("zones", "share", "overloaded"),
    [
        ({"a": 2, "b": 2}, shares(a=0.5, b=0.5), False),
        ({"a": 2, "b": 2}, shares(a=0.6, b=0.4), False),
        ({"a": 2, "b": 2}, shares(a=0.7, b=0.3), True),
        ({"a": 2, "b": 2}, shares(a=0.4, b=0.3, c=0.3), True),
        ({"a": 2, "b": 2}, {}, True),
        ({}, {}, False),
    ],
)
def test_hints_that_overload_a_zone_are_removed(
    zones: dict[str, int], share: Mapping[str, float], overloaded: bool
) -> None:
    assert zone_hints.is_overloaded(zones, share) is overloaded


@given(
    st.lists(st.tuples(st.text("abc-", max_size=12), st.sampled_from([(1, 1, 1), (4, 1, 1), (1, 2, 0)])), max_size=5),
    st.integers(2, 6),
    st.randoms(use_true_random=False),
)
def test_all_ready_endpoints_have_hints_or_none_has(
    steps: list[tuple[str, tuple[int, int, int]]], capacity: int, order: random.Random
) -> None:
    there: list[EndpointSlice] = []
    for zones, parts in steps:
        share = {zone: part / sum(parts) for zone, part in zip("abc", parts, strict=True) if part}
        members = endpoints(zones)
        order.shuffle(members)
        result, hints_result = plan(members, there, share, capacity)
        there = stored(there, result)

        assert not plan(members, there, share, capacity)[0], "it settles at once"
        ready = [member for item in there for member in item.endpoints if member.conditions.ready]
        hinted = Counter(member.hints.for_zones[0].name for member in ready if member.hints is not None)
        assert hinted.total() in (0, len(ready))
        assert dict(hinted) == dict(hints_result.zones or {})
        assert all(member.hints is None for item in there for member in item.endpoints if not member.conditions.ready)
