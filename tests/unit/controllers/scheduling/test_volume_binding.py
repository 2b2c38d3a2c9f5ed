"""Claims of pods that wait for a node: what blocks them, which nodes they allow, which volumes they get."""

from __future__ import annotations

import msgspec
import pytest

from bridgehead.controllers.scheduling.filters import Refusal
from bridgehead.controllers.scheduling.volume_binding import PodClaims, plan_bindings, refuse_node, sort_claims
from bridgehead.objects.core import Pod
from bridgehead.objects.meta import OwnerReference
from bridgehead.objects.storage import SELECTED_NODE, PersistentVolumeClaim, StorageClass
from tests.unit.controllers.volumes.sample_volumes import claim, node, on_host, on_node, pod_with, storage_class, volume

DELAYED = storage_class(mode="WaitForFirstConsumer")
STATIC = storage_class("kubernetes.io/no-provisioner", "WaitForFirstConsumer")
DELETED = msgspec.structs.replace(
    claim(), metadata=msgspec.structs.replace(claim().metadata, deletion_timestamp="2026-01-01T00:00:00Z")
)


def sort(*claims: PersistentVolumeClaim, kind: StorageClass | None = DELAYED, names: tuple[str, ...] = ()) -> PodClaims:
    by_key = {one.key: one for one in claims}
    wanted = names or tuple(one.metadata.name for one in claims)
    volumes = {"pv": volume(nodeAffinity=on_node("x"))}
    return sort_claims(pod_with(*wanted), by_key.get, volumes, lambda name: kind)


@pytest.mark.parametrize(
    ("found", "blocked"),
    [
        (sort(names=("data",)), 'persistentvolumeclaim "data" not found'),
        (sort(claim(), kind=None), "pod has unbound immediate PersistentVolumeClaims"),
        (sort(claim(), kind=storage_class()), "pod has unbound immediate PersistentVolumeClaims"),
        (sort(claim(volumeName="pv")), "pod has unbound immediate PersistentVolumeClaims"),
        (
            sort(claim(volumeName="gone", phase="Lost")),
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "gone"',
        ),
        (sort(DELETED), 'persistentvolumeclaim "data" is being deleted'),
        (sort(claim()), ""),
        (sort(claim(volumeName="pv", phase="Bound")), ""),
        (sort(), ""),
    ],
)
def test_what_blocks_a_pod(found, blocked) -> None:
    assert found.blocked == blocked


def test_the_claim_of_an_ephemeral_volume_belongs_to_the_pod() -> None:
    volumes = [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]
    meta = {"name": "p", "namespace": "n", "uid": "u"}
    pod = msgspec.convert({"metadata": meta, "spec": {"volumes": volumes}}, Pod)
    found = claim("p-v", accessModes=["ReadWriteOncePod"])
    owner = OwnerReference(api_version="v1", kind="Pod", name="p", uid="u", controller=True)
    owned = msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, owner_references=(owner,)))
    waiting = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-v"'
    foreign = "PVC n/p-v was not created for pod n/p (pod is not owner)"
    for present, blocked in ((None, waiting), (found, foreign), (owned, "")):
        assert sort_claims(pod, lambda key, one=present: one, {}, lambda name: DELAYED).blocked == blocked
    assert sort_claims(pod, lambda key: owned, {}, lambda name: DELAYED).exclusive == {"p-v"}


def test_the_node_of_a_bound_volume() -> None:
    found = sort(claim(volumeName="pv", phase="Bound"))
    assert [refuse_node(found, node(name), {}, ()) for name in "xy"] == [None, Refusal.VOLUME_NODE]
    lost = sort(claim(volumeName="gone", phase="Bound"))
    assert refuse_node(lost, node("x"), {}, ()) is Refusal.LOST_VOLUME


def test_claims_share_the_volumes_of_a_node() -> None:
    found = sort(claim("a", size="2Gi"), claim("b"), kind=STATIC)
    small, big = volume("small", nodeAffinity=on_node("x")), volume("big", size="2Gi", nodeAffinity=on_node("x"))
    volumes = {"small": small, "big": big}
    bindings = plan_bindings(found, node("x"), volumes, ())
    assert bindings is not None
    assert [(one.claim.metadata.name, one.volume) for one in bindings] == [("b", small), ("a", big)]
    assert refuse_node(found, node("y"), volumes, ()) is Refusal.NO_VOLUME
    assert refuse_node(found, node("x"), volumes, {"small"}) is Refusal.NO_VOLUME


def test_what_is_not_there_is_provisioned_on_the_chosen_node() -> None:
    found = sort(claim())
    bindings = plan_bindings(found, node("y"), {}, ())
    assert bindings is not None
    assert [one.volume for one in bindings] == [None]
    limited = sort(claim(), kind=storage_class(mode="WaitForFirstConsumer", allowedTopologies=[on_host("y")]))
    assert [refuse_node(limited, node(name), {}, ()) for name in "xy"] == [Refusal.NO_VOLUME, None]
    chosen = sort(claim(annotations={SELECTED_NODE: "x"}))
    assert [refuse_node(chosen, node(name), {}, ()) for name in "xy"] == [None, Refusal.NO_VOLUME]
