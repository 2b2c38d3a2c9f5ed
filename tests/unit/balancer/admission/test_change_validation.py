"""Refusals of changes that would make the configuration invalid."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bridgehead.balancer.admission.change_validation import judge_change
from bridgehead.balancer.configuration import ConfigurationObjects
from bridgehead.objects import metallb, openelb

METALLB, OPENELB = "metallb.io", "network.kubesphere.io"


def made(name: str, namespace: str = "metallb-system", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace, "uid": name}, "spec": spec}


def pool(name: str, *addresses: str, **metadata: Any) -> dict[str, Any]:
    document = made(name, addresses=list(addresses))
    return document | {"metadata": document["metadata"] | metadata}


def peer(name: str, **spec: Any) -> dict[str, Any]:
    return made(name, myASN=64500, peerASN=64501, peerAddress="10.0.0.1", **spec)


def objects(**fields: list[dict[str, Any]]) -> ConfigurationObjects:
    types: dict[str, Any] = {
        "pools": metallb.IPAddressPool,
        "peers": metallb.BGPPeer,
        "bfd_profiles": metallb.BFDProfile,
        "bgp_advertisements": metallb.BGPAdvertisement,
        "eips": openelb.Eip,
    }
    converted: dict[str, Any] = {
        name: tuple(msgspec.convert(one, types[name]) for one in given) for name, given in fields.items()
    }
    return ConfigurationObjects(**converted)


ONE = pool("one", "10.0.0.0/28")


@pytest.mark.parametrize(
    ("before", "group", "plural", "new", "refusal"),
    [
        (objects(), METALLB, "ipaddresspools", ONE, ""),
        (objects(pools=[ONE]), METALLB, "ipaddresspools", pool("two", "10.0.0.8-10.0.0.20"), "overlaps with already"),
        (objects(pools=[ONE]), METALLB, "ipaddresspools", pool("one", "10.0.0.0/24"), ""),  # an update of itself
        (objects(), METALLB, "ipaddresspools", pool("one", "10.0.0.20-10.0.0.8"), "is after end"),
        (objects(), METALLB, "ipaddresspools", pool("one", "10.0.0.8"), "invalid CIDR address"),
        (
            objects(),
            METALLB,
            "ipaddresspools",
            pool("one", "10.0.0.0/28", namespace="default"),
            "resource must be created in metallb-system namespace",
        ),
        # A name that a later object of the same manifest may define is no reason to refuse.
        (objects(), METALLB, "bgppeers", peer("r", bfdProfile="fast"), ""),
        (objects(pools=[ONE]), METALLB, "bgpadvertisements", made("a", communities=["vip"], peers=["r"]), ""),
        (objects(pools=[ONE]), METALLB, "bgpadvertisements", made("a", communities=["1:99999"]), "invalid community"),
        (objects(), OPENELB, "eips", made("eip", "", address="10.0.0.1-10.0.0.9", protocol="bgp"), ""),
        (
            objects(eips=[made("eip", "", address="10.0.0.1-10.0.0.9", protocol="bgp")]),
            OPENELB,
            "eips",
            made("other", "", address="10.0.0.9", protocol="bgp"),
            "overlap",
        ),
        (objects(), METALLB, "servicel2statuses", made("x"), ""),
    ],
)
def test_creations_and_updates(before, group, plural, new, refusal):
    answer = judge_change(before, group, plural, "CREATE", None, new)
    assert refusal in answer
    assert bool(refusal) == bool(answer)


def test_a_broken_configuration_can_be_repaired_object_by_object():
    broken = objects(pools=[ONE, pool("two", "10.0.0.0/30"), pool("three", "10.0.0.0/31")])
    assert judge_change(broken, METALLB, "ipaddresspools", "UPDATE", None, pool("four", "10.1.0.0/24")) == ""
    assert judge_change(broken, METALLB, "ipaddresspools", "UPDATE", None, pool("two", "10.2.0.0/24")) == ""
    assert judge_change(broken, METALLB, "ipaddresspools", "DELETE", pool("three", "10.0.0.0/31"), None) == ""


def test_a_used_bfd_profile_cannot_be_deleted():
    before = objects(peers=[peer("r", bfdProfile="fast")], bfd_profiles=[made("fast"), made("slow")])
    refusal = judge_change(before, METALLB, "bfdprofiles", "DELETE", made("fast"), None)
    assert refusal == "Failed to delete BFDProfile fast, used by r"
    assert judge_change(before, METALLB, "bfdprofiles", "DELETE", made("slow"), None) == ""


def test_an_object_that_the_schema_refuses_is_left_to_it():
    assert judge_change(objects(), METALLB, "ipaddresspools", "CREATE", None, {"spec": {"addresses": 1}}) == ""


EIP = made("eip", "", address="10.0.0.0/24", protocol="bgp")
# Objects that are not valid, one of each kind.
BROKEN = [
    (METALLB, "ipaddresspools", pool("two", "10.0.0.0/30")),
    (METALLB, "l2advertisements", made("a", ipAddressPoolSelectors=[{"matchLabels": {"a": "b c"}}])),
    (METALLB, "bgpadvertisements", made("a", communities=["1:99999"])),
    (METALLB, "bgppeers", peer("r", holdTime="1s")),
    (METALLB, "bfdprofiles", made("fast", receiveInterval=1)),
    (METALLB, "communities", made("c", communities=[{"name": "a", "value": "nonsense"}])),
    (OPENELB, "eips", EIP),
    (OPENELB, "bgpconfs", made("default", "", as_=1, listenPort=99999)),
    (OPENELB, "bgppeers", {"metadata": {"name": "r"}, "spec": {"conf": {"neighborAddress": "nonsense", "peerAs": 1}}}),
]


def with_metadata(document: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return document | {"metadata": document["metadata"] | metadata}


@pytest.mark.parametrize(
    ("group", "plural", "broken"), BROKEN, ids=[f"{plural}.{group}" for group, plural, _ in BROKEN]
)
def test_what_changes_no_configuration_is_never_refused(group: str, plural: str, broken: dict[str, Any]) -> None:
    before = objects(pools=[ONE])
    finalized = with_metadata(broken, finalizers=["a/b"])
    leaving = with_metadata(finalized, deletionTimestamp="2026-01-01T00:00:00Z")

    def refusal(old: dict[str, Any], new: dict[str, Any] | None, operation: str = "UPDATE") -> str:
        return judge_change(before, group, plural, operation, old, new)

    assert refusal(broken, finalized) == ""
    assert refusal(broken, with_metadata(broken, labels={"a": "b"}, annotations={"c": "d"})) == ""
    assert refusal(broken, broken | {"status": {"ready": True}, "apiVersion": f"{group}/v1"}) == ""
    assert refusal(leaving, with_metadata(leaving, finalizers=[])) == "", "its finalizers go"
    assert refusal(leaving, leaving | {"spec": {}}) == ""
    assert refusal(leaving, None, "DELETE") == ""


def test_a_change_of_what_counts_is_still_refused():
    before = objects(pools=[ONE])
    refused = judge_change(before, OPENELB, "eips", "UPDATE", EIP | {"spec": {}}, EIP)
    assert "overlap" in refused
    leaving = with_metadata(made("fast"), deletionTimestamp="2026-01-01T00:00:00Z")
    used = objects(peers=[peer("r", bfdProfile="fast")], bfd_profiles=[made("fast")])
    assert judge_change(used, METALLB, "bfdprofiles", "DELETE", leaving, None) == ""
