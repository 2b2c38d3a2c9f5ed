"""Patches of Services and statuses of pools."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bridgehead.balancer.allocation import Allocation, Allocator, Decision, Pending, PendingReason
from bridgehead.balancer.configuration import compile_configuration
from bridgehead.balancer.controller.pool_statuses import eip_status, pool_status
from bridgehead.balancer.controller.service_patches import CONDITION, SERVICE_FINALIZER, openelb_patch, status_patch
from bridgehead.balancer.ranges import IpAddress, address_of
from bridgehead.objects.core import Service
from tests.unit.balancer.objects import eip, gather, pool
from tests.unit.balancer.services import service

NOW = 1_790_000_000.0
TIME = "2026-09-21T14:13:20Z"
LABEL = "eip.openelb.kubesphere.io/v1alpha2"
POOL = "metallb.io/ip-allocated-from-pool"
OLD_POOL = "metallb.universe.tf/ip-allocated-from-pool"
ADDRESS: IpAddress = address_of(4, 0x0A000001)
ASSIGNED = Decision(Allocation((ADDRESS,), ("p",)))
PENDING = Decision(pending=Pending(PendingReason.POOL_FULL, "no available IPs"))
NOTHING = Decision()


def found(*ips: str, condition: dict[str, str] | None = None, **metadata: Any) -> Service:
    data = msgspec.to_builtins(service("s", status=ips))
    data["metadata"].update(metadata)
    if condition is not None:
        data["status"]["conditions"] = [{"type": CONDITION, "status": "False", **condition}]
    return msgspec.convert(data, Service)


FULL = {"reason": "PoolFull", "message": "no available IPs", "lastTransitionTime": "2026-01-01T00:00:00Z"}
NEW_CONDITION = {"type": CONDITION, "status": "False", "reason": "PoolFull", "message": "no available IPs"}


@pytest.mark.parametrize(
    ("current", "decision", "patch"),
    [
        (
            found(),
            ASSIGNED,
            {
                "metadata": {"annotations": {POOL: "p"}},
                "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1", "ipMode": "VIP"}]}},
            },
        ),
        (found("10.0.0.1", annotations={POOL: "p"}), ASSIGNED, None),
        (found("10.0.0.1", annotations={POOL: "q"}), ASSIGNED, {"metadata": {"annotations": {POOL: "p"}}}),
        (
            found("10.0.0.1", annotations={OLD_POOL: "p"}),
            ASSIGNED,
            {"metadata": {"annotations": {POOL: "p", OLD_POOL: None}}},
        ),
        (found(), NOTHING, None),
        (
            found("10.0.0.1", annotations={POOL: "p"}),
            NOTHING,
            {"metadata": {"annotations": {POOL: None}}, "status": {"loadBalancer": {"ingress": None}}},
        ),
        (found(), PENDING, {"status": {"conditions": [{**NEW_CONDITION, "lastTransitionTime": TIME}]}}),
        (found(condition=FULL), PENDING, None),
        (
            found(condition={**FULL, "reason": "NoPool"}),
            PENDING,
            {"status": {"conditions": [{**NEW_CONDITION, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}},
        ),
        (found(condition=FULL), NOTHING, {"status": {"conditions": [{"$patch": "delete", "type": CONDITION}]}}),
    ],
)
def test_the_patch_of_the_status(current: Service, decision: Decision, patch: Any) -> None:
    assert status_patch(current, decision, NOW) == patch


LABELLED = {LABEL: "e"}


@pytest.mark.parametrize(
    ("current", "eip_name", "is_openelb", "metadata"),
    [
        (found(), "", False, None),
        (found(), "e", False, {"labels": LABELLED}),
        (found(), "e", True, {"labels": LABELLED, "finalizers": [SERVICE_FINALIZER]}),
        (found(labels=LABELLED, finalizers=[SERVICE_FINALIZER]), "e", True, None),
        (found(labels=LABELLED), "", False, {"labels": {LABEL: None}}),
        (
            found(labels=LABELLED, finalizers=[SERVICE_FINALIZER]),
            "",
            True,
            {"labels": {LABEL: None}, "$deleteFromPrimitiveList/finalizers": [SERVICE_FINALIZER]},
        ),
        (
            found(labels=LABELLED, finalizers=[SERVICE_FINALIZER], deletionTimestamp=TIME),
            "e",
            True,
            {"$deleteFromPrimitiveList/finalizers": [SERVICE_FINALIZER]},
        ),
    ],
)
def test_the_patch_of_openelbs_metadata(current: Service, eip_name: str, is_openelb: bool, metadata: Any) -> None:
    patch = openelb_patch(current, eip_name, is_openelb=is_openelb)
    assert patch == (None if metadata is None else {"metadata": metadata})


def spaces(*objects: Any) -> Any:
    allocator = Allocator()
    allocator.set_pools(compile_configuration(gather(*objects)).configuration.pools)
    return list(allocator.spaces())


def test_the_status_of_a_pool() -> None:
    (space,) = spaces(pool("p", "10.0.0.0/24", "fd00::/16", avoidBuggyIPs=True))
    assert pool_status(space) == {
        "assignedIPv4": 0,
        "assignedIPv6": 0,
        "availableIPv4": 254,
        "availableIPv6": 2**63 - 1,
    }


def test_the_status_of_an_eip() -> None:
    (space,) = spaces(eip("e", "10.0.0.1-10.0.0.2"))
    keys = [service("a").key, service("b").key]
    other = address_of(4, 0x0A000002)
    empty = eip_status(space, {}, ["10.0.0.9"])
    assert (empty["usage"], empty["used"], empty["occupied"]) == (None, None, None)
    full = eip_status(space, {ADDRESS: keys, other: keys[:1]}, ["10.0.0.9"])
    assert full == {
        "firstIP": "10.0.0.1",
        "lastIP": "10.0.0.2",
        "poolSize": 2,
        "usage": 2,
        "used": {"10.0.0.9": None, "10.0.0.1": "default/a;default/b", "10.0.0.2": "default/a"},
        "occupied": True,
        "ready": True,
        "v4": True,
    }
