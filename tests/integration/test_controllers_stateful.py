"""The StatefulSet controller, the volume controllers and the scheduler against the real API server over a socket.

The test plays the kubelets: it makes bound pods ready, ends pods that delete directories, and removes pods that
terminate.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from bridgehead.client import ApiClient, EventRecorder, Informer
from bridgehead.client.errors import Forbidden, Invalid, NotFound
from bridgehead.controllers.garbage.garbage_collector import GarbageCollector
from bridgehead.controllers.scheduling.scheduler import Scheduler
from bridgehead.controllers.shared_informers import Informers
from bridgehead.controllers.stateful.statefulset_controller import StatefulSetController
from bridgehead.controllers.volumes.binder import PersistentVolumeBinder
from bridgehead.controllers.volumes.ephemeral import EphemeralVolumeController
from bridgehead.controllers.volumes.host_path import HostPathProvisioner
from bridgehead.controllers.volumes.host_path_plan import VOLUME_LABEL
from bridgehead.controllers.volumes.protection import ClaimProtectionController, VolumeProtectionController
from bridgehead.objects.apps import StatefulSet
from bridgehead.objects.core import Pod
from bridgehead.objects.kinds import (
    CONTROLLER_REVISIONS,
    EVENTS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    SERVICE_ACCOUNTS,
    STATEFUL_SETS,
    STORAGE_CLASSES,
)
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.storage import PersistentVolume, PersistentVolumeClaim

from .api_world import api_world, until_seen
from .api_world import running as running_parts

pytestmark = pytest.mark.integration

NOW = "2026-01-01T00:00:00Z"
KINDS: tuple[Any, ...] = (
    *(STATEFUL_SETS, CONTROLLER_REVISIONS, PODS, EVENTS, NODES),
    *(PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES),
)


class Kubelet:
    """Plays the kubelets of all nodes."""

    def __init__(self, client: ApiClient, informers: Informers) -> None:
        self._client = client
        self._work: asyncio.Queue[Pod] = asyncio.Queue()
        self.is_broken: Callable[[Pod], bool] = lambda pod: False
        self.failing_cleaners = 0  # how many pods that delete a directory are still to fail
        informers.get(PODS).on_change(lambda old, new: self._work.put_nowait(new) if new is not None else None)

    async def run(self) -> None:
        while True:
            pod = await self._work.get()
            meta = pod.metadata
            with contextlib.suppress(NotFound):
                if pod.is_terminating:
                    await self._client.delete(PODS, meta.name, meta.namespace, grace_period_seconds=0)
                elif pod.spec.node_name and pod.status.phase == "Pending" and not self.is_broken(pod):
                    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": NOW}]
                    phase = self._clean() if VOLUME_LABEL in meta.labels else "Running"
                    status = {"phase": phase, "conditions": conditions, "podIP": "10.244.0.9"}
                    await self._client.patch(PODS, meta.name, meta.namespace, {"status": status}, "strategic", "status")

    def _clean(self) -> str:
        """Return the phase of a pod that deletes a directory."""
        if not self.failing_cleaners:
            return "Succeeded"
        self.failing_cleaners -= 1
        return "Failed"


class Cluster:
    def __init__(self, client: ApiClient, informers: Informers, kubelet: Kubelet) -> None:
        self.client = client
        self.informers = informers
        self.kubelet = kubelet

    async def until(self, what: Callable[[], Any]) -> Any:
        informers: list[Informer[Any]] = [self.informers.get(kind) for kind in KINDS]
        return await until_seen(what, *informers)

    def stateful_set(self) -> StatefulSet:
        """An empty one while there is none."""
        return next(iter(self.informers.get(STATEFUL_SETS).items()), StatefulSet())

    def pods(self) -> dict[str, Pod]:
        pods = self.informers.get(PODS).items()
        return {p.metadata.name: p for p in sorted(pods, key=lambda p: p.metadata.name) if not p.is_terminating}

    def ready(self) -> list[str]:
        return [name for name, pod in self.pods().items() if pod.is_ready]

    def claims(self) -> dict[str, PersistentVolumeClaim]:
        return {claim.metadata.name: claim for claim in self.informers.get(PERSISTENT_VOLUME_CLAIMS).items()}

    def claim(self, name: str = "data") -> PersistentVolumeClaim:
        """An empty one while there is none."""
        return self.claims().get(name, PersistentVolumeClaim())

    def volumes(self) -> dict[str, PersistentVolume]:
        return {volume.metadata.name: volume for volume in self.informers.get(PERSISTENT_VOLUMES).items()}

    def phase_of(self, volume: str) -> str:
        return self.volumes().get(volume, PersistentVolume()).status.phase

    def messages(self, kind: str) -> list[str]:
        events = self.informers.get(EVENTS).items()
        return [event.message for event in events if event.involved_object.kind == kind]

    async def replace(self, name: str) -> None:
        """Delete a pod, and wait for its successor."""
        before = self.pods()[name].metadata.uid
        await self.client.delete(PODS, name, "default")
        await self.until(lambda: name in self.ready() and self.pods()[name].metadata.uid != before)

    def is_rolled_out(self, replicas: int) -> bool:
        """Whether `kubectl rollout status` would succeed."""
        one = self.stateful_set()
        status = one.status
        return (
            status.observed_generation == one.metadata.generation
            and status.replicas == status.updated_replicas == status.available_replicas == replicas
            and status.current_revision == status.update_revision
        )


@contextlib.asynccontextmanager
async def running() -> AsyncIterator[Cluster]:
    async with api_world() as world, ApiClient(world.config) as client:
        for namespace in ("default", "kube-system"):
            account = {"metadata": {"name": "default", "namespace": namespace}}
            await client.create(SERVICE_ACCOUNTS, account)
        for name in ("node1", "node2"):
            await client.create(NODES, {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}})
            conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": NOW}]
            status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}, "conditions": conditions}
            await client.patch(NODES, name, "", {"status": status}, subresource="status")
        await client.create(STORAGE_CLASSES, storage_class())
        informers = Informers(client)
        recorder = EventRecorder(client, "test")
        kubelet = Kubelet(client, informers)
        controllers = [
            kind(client, informers, recorder)
            for kind in (
                *(StatefulSetController, Scheduler, PersistentVolumeBinder),
                functools.partial(HostPathProvisioner, cleaner_wait=0.1),
                *(ClaimProtectionController, VolumeProtectionController, EphemeralVolumeController, GarbageCollector),
            )
        ]
        informers.get(EVENTS)
        async with running_parts(*(part.run() for part in (informers, recorder, kubelet, *controllers))):
            yield Cluster(client, informers, kubelet)


def storage_class() -> dict[str, Any]:
    return {
        "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "bridgehead.io/host-path",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": True,
    }


def claim_spec(size: str = "1Gi", **more: Any) -> dict[str, Any]:
    return {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **more}


def claim(name: str = "data", **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": claim_spec(**more)}


def stateful_set(**spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "image": "a:1"}]}}
    default = {"replicas": 3, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}}, "template": template}
    claims = [{"metadata": {"name": "data"}, "spec": claim_spec()}]
    return {
        "metadata": {"name": "db", "namespace": "default"},
        "spec": default | {"volumeClaimTemplates": claims} | spec,
    }


def pod(name: str = "user", claim: str = "data") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "containers": [{"name": "c", "image": "a:1"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}],
        },
    }


def volume(name: str, **spec: Any) -> dict[str, Any]:
    default = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/data"}}
    return {"metadata": {"name": name}, "spec": default | spec}


async def test_a_stateful_set_keeps_names_and_claims() -> None:
    async with running() as cluster:
        client = cluster.client
        await client.create(STATEFUL_SETS, stateful_set())
        await cluster.until(lambda: cluster.is_rolled_out(3))
        assert cluster.ready() == ["db-0", "db-1", "db-2"]
        bound = {name: one.spec.volume_name for name, one in cluster.claims().items()}
        assert bound.keys() == {"data-db-0", "data-db-1", "data-db-2"}
        assert set(bound.values()) == cluster.volumes().keys()
        before = cluster.pods()["db-1"]
        assert before.spec.hostname == "db-1"
        assert before.spec.subdomain == "db"
        await cluster.replace("db-1")
        after = cluster.pods()["db-1"]
        assert after.spec.node_name == before.spec.node_name  # the volume is there
        assert {name: one.spec.volume_name for name, one in cluster.claims().items()} == bound
        expected = {f"create Pod db-{n} in StatefulSet db successful" for n in range(3)}
        expected |= {f"create Claim data-db-{n} Pod db-{n} in StatefulSet db success" for n in range(3)}
        await cluster.until(lambda: expected <= set(cluster.messages("StatefulSet")))
        # Scaled down from the highest ordinal; the claims stay.
        await client.patch(STATEFUL_SETS, "db", "default", {"spec": {"replicas": 1}})
        await cluster.until(lambda: list(cluster.pods()) == ["db-0"] and cluster.is_rolled_out(1))
        assert len(cluster.claims()) == 3


async def test_a_stateful_set_is_updated_and_rolled_back() -> None:
    async with running() as cluster:
        client = cluster.client
        await client.create(STATEFUL_SETS, stateful_set(volumeClaimTemplates=[], podManagementPolicy="Parallel"))
        await cluster.until(lambda: cluster.is_rolled_out(3))
        first = cluster.stateful_set().status.current_revision

        def images() -> list[str]:
            return [one.spec.containers[0].image for name, one in cluster.pods().items() if name in cluster.ready()]

        async def update(image: str, partition: int) -> None:
            template = {"spec": {"containers": [{"name": "c", "image": image}]}}
            strategy = {"rollingUpdate": {"partition": partition}}
            patch = {"spec": {"template": template, "updateStrategy": strategy}}
            await client.patch(STATEFUL_SETS, "db", "default", patch)

        await update("a:2", 2)
        await cluster.until(lambda: images() == ["a:1", "a:1", "a:2"])
        await cluster.replace("db-0")  # below the partition, so it keeps the old revision
        await cluster.until(lambda: images() == ["a:1", "a:1", "a:2"])
        await update("a:2", 0)
        await cluster.until(lambda: images() == ["a:2"] * 3 and cluster.is_rolled_out(3))
        assert cluster.stateful_set().status.current_revision != first
        await update("a:1", 0)
        await cluster.until(lambda: images() == ["a:1"] * 3 and cluster.is_rolled_out(3))
        assert cluster.stateful_set().status.current_revision == first
        revisions = {one.metadata.name: one.revision for one in cluster.informers.get(CONTROLLER_REVISIONS).items()}
        assert sorted(revisions.values()) == [2, 3]
        assert revisions[first] == 3


async def test_claims_go_with_their_pods_if_the_policy_wants_it() -> None:
    async with running() as cluster:
        policy = {"whenScaled": "Delete", "whenDeleted": "Delete"}
        await cluster.client.create(
            STATEFUL_SETS, stateful_set(replicas=2, persistentVolumeClaimRetentionPolicy=policy)
        )
        await cluster.until(lambda: cluster.is_rolled_out(2))
        await cluster.until(lambda: all(one.metadata.controller for one in cluster.claims().values()))
        await cluster.client.patch(STATEFUL_SETS, "db", "default", {"spec": {"replicas": 1}})
        await cluster.until(lambda: list(cluster.claims()) == ["data-db-0"])
        # The claim of the deleted pod takes its volume and the directory with it.
        await cluster.until(lambda: len(cluster.volumes()) == 1)
        await cluster.client.delete(STATEFUL_SETS, "db", "default", propagation_policy="Background")
        await cluster.until(lambda: not cluster.claims() and not cluster.volumes() and not cluster.pods())


async def test_claims_are_bound_kept_and_released() -> None:
    async with running() as cluster:
        client = cluster.client
        for body in (
            volume("small"),
            volume("large", capacity={"storage": "5Gi"}),
            volume("kept", claimRef={"namespace": "default", "name": "reserved"}),
            volume("doomed", persistentVolumeReclaimPolicy="Delete", storageClassName="doomed"),
            volume(
                "gone", persistentVolumeReclaimPolicy="Delete", storageClassName="gone", hostPath={"path": "/tmp/a"}
            ),
        ):
            await client.create(PERSISTENT_VOLUMES, body)
        await cluster.until(
            lambda: [cluster.phase_of(name) for name in ("small", "large", "kept")] == ["Available"] * 3
        )
        for body in (
            claim(storageClassName=""),
            claim("reserved", storageClassName=""),
            claim("doomed", storageClassName="doomed"),
            claim("gone", storageClassName="gone"),
            claim("huge", size="1Ti", storageClassName=""),
            claim("unknown", storageClassName="unknown"),
        ):
            await client.create(PERSISTENT_VOLUME_CLAIMS, body)
        names = {"data": "small", "reserved": "kept", "doomed": "doomed", "gone": "gone"}
        await cluster.until(lambda: all(cluster.claim(one).status.phase == "Bound" for one in names))
        assert {name: cluster.claim(name).spec.volume_name for name in names} == names
        assert cluster.claim().status.capacity == {"storage": "1Gi"}
        with pytest.raises(Forbidden, match="only dynamically provisioned pvc can be resized"):
            await client.patch(PERSISTENT_VOLUME_CLAIMS, "data", "default", {"spec": claim_spec("2Gi")})
        missing = [
            "no persistent volumes available for this claim and no storage class is set",
            'storageclass.storage.k8s.io "unknown" not found',
        ]
        await cluster.until(lambda: set(missing) <= set(cluster.messages("PersistentVolumeClaim")))
        assert cluster.claim("huge").status.phase == "Pending"
        # A pod with an unbound claim waits; its condition states why.
        await client.create(PODS, pod("blocked", "huge"))
        blocked = "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found"
        await cluster.until(lambda: blocked in cluster.messages("Pod"))
        # A claim in use outlives its deletion until its pod has ended.
        await client.create(PODS, pod())
        await cluster.until(lambda: "user" in cluster.ready())
        await client.delete(PERSISTENT_VOLUME_CLAIMS, "data", "default")
        await cluster.until(lambda: cluster.claim().metadata.deletion_timestamp)
        assert cluster.claim().metadata.finalizers == ("kubernetes.io/pvc-protection",)
        await client.delete(PODS, "user", "default")
        await cluster.until(lambda: "data" not in cluster.claims() and cluster.phase_of("small") == "Released")
        for name in ("doomed", "gone"):
            await client.delete(PERSISTENT_VOLUME_CLAIMS, name, "default")
        await cluster.until(lambda: "gone" not in cluster.volumes())
        await cluster.until(lambda: cluster.phase_of("doomed") == "Failed")
        assert cluster.volumes()["doomed"].status.message.startswith("host_path deleter only supports /tmp/.+")
        # A bound volume outlives its deletion as long as its claim exists.
        await client.delete(PERSISTENT_VOLUMES, "kept")
        await cluster.until(lambda: cluster.volumes()["kept"].metadata.deletion_timestamp)
        await client.delete(PERSISTENT_VOLUME_CLAIMS, "reserved", "default")
        await cluster.until(lambda: "kept" not in cluster.volumes())


async def test_a_claim_without_a_class_waits_for_a_default_one() -> None:
    async with running() as cluster:
        client, classes = cluster.client, cluster.informers.get(STORAGE_CLASSES)
        await client.delete(STORAGE_CLASSES, "standard")
        await cluster.until(lambda: not list(classes.items()))
        await client.create(PERSISTENT_VOLUME_CLAIMS, claim())
        missing = "no persistent volumes available for this claim and no storage class is set"
        await cluster.until(lambda: missing in cluster.messages("PersistentVolumeClaim"))
        await client.create(STORAGE_CLASSES, storage_class())
        await cluster.until(lambda: cluster.claim().spec.storage_class_name == "standard")


async def test_the_scheduler_chooses_among_volumes_of_nodes() -> None:
    async with running() as cluster:
        client = cluster.client
        local = storage_class() | {"metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner"}
        await client.create(STORAGE_CLASSES, local)
        for number in (1, 2):
            expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [f"node{number}"]}
            affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
            body = volume(f"disk{number}", storageClassName="local", nodeAffinity=affinity)
            await client.create(PERSISTENT_VOLUMES, body)
        for name in ("a", "b", "c"):
            await client.create(PERSISTENT_VOLUME_CLAIMS, claim(name, storageClassName="local"))
            await client.create(PODS, pod(name, name))
        await cluster.until(lambda: len(cluster.ready()) == 2)
        for name in cluster.ready():
            where = cluster.pods()[name].spec.node_name
            assert cluster.claim(name).spec.volume_name == where.replace("node", "disk")
        assert {cluster.pods()[name].spec.node_name for name in cluster.ready()} == {"node1", "node2"}
        none = "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind."
        await cluster.until(lambda: any(message.startswith(none) for message in cluster.messages("Pod")))
        # A new volume wakes the third pod.
        await client.create(PERSISTENT_VOLUMES, volume("disk3", storageClassName="local"))
        await cluster.until(lambda: len(cluster.ready()) == 3)


async def test_a_directory_is_made_where_the_pod_is() -> None:
    async with running() as cluster:
        client = cluster.client
        await client.create(PERSISTENT_VOLUME_CLAIMS, claim())
        waiting = "waiting for first consumer to be created before binding"
        await cluster.until(lambda: waiting in cluster.messages("PersistentVolumeClaim"))
        with pytest.raises(Invalid, match="spec is immutable after creation except"):
            await client.patch(PERSISTENT_VOLUME_CLAIMS, "data", "default", {"spec": claim_spec("2Gi")})
        await client.create(
            PODS, {**pod(), "spec": pod()["spec"] | {"nodeSelector": {"kubernetes.io/hostname": "node2"}}}
        )
        await cluster.until(lambda: "user" in cluster.ready())
        (made,) = cluster.volumes().values()
        assert made.metadata.name == f"pvc-{cluster.claim().metadata.uid}"
        assert made.spec.node_affinity is not None
        (term,) = (made.spec.node_affinity.required or {})["nodeSelectorTerms"]
        assert term["matchExpressions"][0]["values"] == ["node2"]
        # Another pod with the claim can run only there.
        other = pod("other")
        other["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "node1"}
        await client.create(PODS, other)
        refused = "1 node(s) didn't match PersistentVolume's node affinity"
        await cluster.until(lambda: any(refused in message for message in cluster.messages("Pod")))
        await client.patch(PERSISTENT_VOLUME_CLAIMS, "data", "default", {"spec": claim_spec("2Gi")})
        await cluster.until(lambda: cluster.claim().status.capacity == {"storage": "2Gi"})
        await cluster.until(lambda: cluster.volumes()[made.metadata.name].size == "2Gi")
        cluster.kubelet.failing_cleaners = 1  # as on a node without room for the pod
        # The volume stays, until its directory is deleted after the claim.
        await client.delete(PERSISTENT_VOLUMES, made.metadata.name)
        for name in ("user", "other"):
            await client.delete(PODS, name, "default")
        await client.delete(PERSISTENT_VOLUME_CLAIMS, "data", "default")
        await cluster.until(lambda: not cluster.volumes())
        failed = "failed to delete the directory"
        await cluster.until(lambda: any(failed in text for text in cluster.messages("PersistentVolume")))
        await cluster.until(
            lambda: cluster.informers.get(PODS).get(ObjectKey("kube-system", f"delete-{made.key}")) is None
        )


async def test_the_claim_of_an_ephemeral_volume_lives_as_long_as_its_pod() -> None:
    async with running() as cluster:
        client = cluster.client
        template = {"metadata": {"labels": {"app": "db"}}, "spec": claim_spec()}
        body = pod()
        body["spec"]["volumes"] = [{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}]
        taken = pod("second")
        taken["spec"]["volumes"] = body["spec"]["volumes"]
        await client.create(PERSISTENT_VOLUME_CLAIMS, claim("second-v"))
        await client.create(PODS, body)
        await client.create(PODS, taken)
        await cluster.until(lambda: "user" in cluster.ready())
        made = cluster.claims()["user-v"]
        assert made.metadata.labels == {"app": "db"}
        assert made.metadata.controller is not None
        assert (made.status.phase, made.metadata.controller.name) == ("Bound", "user")
        foreign = "PVC default/second-v was not created for pod default/second (pod is not owner)"
        await cluster.until(lambda: any(foreign in text for text in cluster.messages("Pod")))
        await client.delete(PODS, "user", "default", grace_period_seconds=0)
        await cluster.until(lambda: cluster.claims().keys() == {"second-v"})


async def test_a_pod_of_high_priority_preempts_one_of_low_priority() -> None:
    async with running() as cluster:
        client = cluster.client
        for name, value in (("low", 1), ("high", 1000)):
            body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
            await client.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", json=body | {"value": value})

        def large(name: str, priority: str) -> dict[str, Any]:
            container = {"name": "c", "image": "a:1", "resources": {"requests": {"cpu": "3"}}}
            spec = {"containers": [container], "priorityClassName": priority}
            return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}

        for name in ("low-1", "low-2"):
            await client.create(PODS, large(name, "low"))
        await cluster.until(lambda: {"low-1", "low-2"} <= set(cluster.ready()))
        await client.create(PODS, large("urgent", "high"))
        await cluster.until(lambda: "urgent" in cluster.ready())
        left = {"low-1", "low-2"} & cluster.pods().keys()
        assert len(left) == 1
        uid, node = cluster.pods()["urgent"].metadata.uid, cluster.pods()["urgent"].spec.node_name
        await cluster.until(lambda: f"Preempted by pod {uid} on node {node}" in cluster.messages("Pod"))
        await cluster.until(lambda: "0/2 nodes are available: 2 Insufficient cpu." in cluster.messages("Pod"))
        # A pod of low priority stays pending, and names why.
        await client.create(PODS, large("low-3", "low"))
        none = "0/2 nodes are available: "
        why = (
            f"{none}2 Insufficient cpu. no new claims to deallocate, "
            f"preemption: {none}2 No preemption victims found for incoming pod."
        )
        await cluster.until(lambda: why in cluster.messages("Pod"))
        assert left <= cluster.pods().keys()
