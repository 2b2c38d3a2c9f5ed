"""The workload controllers and the scheduler against the real API server over a socket.

The test plays the kubelet alone: it marks pods that were bound as running and ready, and removes those that terminate.
Nodes are created as a kubelet would register them.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from bridgehead.client import ApiClient, Done, EventRecorder
from bridgehead.client.errors import NotFound
from bridgehead.controllers.scheduling.scheduler import Scheduler
from bridgehead.controllers.shared_informers import Informers
from bridgehead.controllers.workloads.daemonset_controller import DaemonSetController
from bridgehead.controllers.workloads.deployment_controller import DeploymentController
from bridgehead.controllers.workloads.replicaset_controller import ReplicaSetController, ReplicationControllerController
from bridgehead.objects.apps import DaemonSet, Deployment, ReplicaSet
from bridgehead.objects.core import Pod
from bridgehead.objects.kinds import (
    CONTROLLER_REVISIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    EVENTS,
    NODES,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICE_ACCOUNTS,
    Kind,
)

from .api_world import api_world, until_seen
from .api_world import running as running_parts

pytestmark = pytest.mark.integration

NOW = "2026-01-01T00:00:00Z"


class Kubelet:
    """Plays the kubelets of all nodes. `broken`: pods that never become ready."""

    def __init__(self, client: ApiClient, informers: Informers) -> None:
        self._client = client
        self._pods = informers.get(PODS)
        self._work: asyncio.Queue[Pod] = asyncio.Queue()
        self.broken: Callable[[Pod], bool] = lambda pod: False
        self._pods.on_change(lambda old, new: self._work.put_nowait(new) if new is not None else None)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(8):
                tasks.create_task(self._worker())

    async def _worker(self) -> None:
        while True:
            pod = await self._work.get()
            with contextlib.suppress(NotFound):
                if pod.is_terminating:
                    await self._client.delete(PODS, pod.metadata.name, pod.metadata.namespace, grace_period_seconds=0)
                elif pod.spec.node_name and pod.status.phase == "Pending" and not self.broken(pod):
                    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": NOW}]
                    status = {"phase": "Running", "conditions": conditions, "podIP": "10.244.0.9"}
                    await self._client.patch(
                        PODS, pod.metadata.name, pod.metadata.namespace, {"status": status}, "strategic", "status"
                    )


class Cluster:
    """A client, and waiting for conditions."""

    def __init__(self, client: ApiClient, informers: Informers, kubelet: Kubelet) -> None:
        self.client = client
        self.informers = informers
        self.kubelet = kubelet

    async def until(self, what: Callable[[], Any]) -> Any:
        """The first true value of `what()`, asked again whenever anything watched changes."""
        workloads = (DEPLOYMENTS, REPLICA_SETS, REPLICATION_CONTROLLERS, DAEMON_SETS, CONTROLLER_REVISIONS)
        watched: tuple[Kind[Any], ...] = (NODES, PODS, *workloads, EVENTS)
        return await until_seen(what, *(self.informers.get(kind) for kind in watched))

    def pods(self, **labels: str) -> list[Pod]:
        pods = self.informers.get(PODS).items()
        return [pod for pod in pods if labels.items() <= pod.metadata.labels.items() and not pod.is_terminating]

    def deployment(self) -> Deployment:
        """An empty one while there is none."""
        return next(iter(self.informers.get(DEPLOYMENTS).items()), Deployment())

    def daemon_set(self) -> DaemonSet:
        """An empty one while there is none."""
        return next(iter(self.informers.get(DAEMON_SETS).items()), DaemonSet())

    def replica_sets(self) -> list[ReplicaSet]:
        return sorted(self.informers.get(REPLICA_SETS).items(), key=lambda rs: rs.metadata.annotations[REVISION])

    def messages(self, kind: str, reason: str = "") -> list[str]:
        """Messages of Events about objects of a kind."""
        events = self.informers.get(EVENTS).items()
        return [e.message for e in events if e.involved_object.kind == kind and reason in ("", e.reason)]

    def is_rolled_out(self, revision: int) -> bool:
        """Whether `kubectl rollout status` would succeed for this revision."""
        deployment = self.deployment()
        if deployment.metadata.annotations.get(REVISION) != str(revision):
            return False
        status, wanted = deployment.status, deployment.spec.replicas
        return (
            status.observed_generation == deployment.metadata.generation
            and status.updated_replicas == status.replicas == status.available_replicas == wanted
        )

    async def patch_deployment(self, patch: dict[str, Any]) -> None:
        await self.client.patch(DEPLOYMENTS, "web", "default", patch)


REVISION = "deployment.kubernetes.io/revision"


@contextlib.asynccontextmanager
async def running(
    nodes: int = 3, prepare: Callable[[ApiClient], Awaitable[None]] | None = None
) -> AsyncIterator[Cluster]:
    """`prepare` creates what is there before the controllers start."""
    async with api_world() as world, ApiClient(world.config) as client:
        await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default", "namespace": "default"}})
        for number in range(1, nodes + 1):
            await add_node(client, f"node{number}")
        if prepare is not None:
            await prepare(client)
        informers = Informers(client)
        recorder = EventRecorder(client, "test")
        kubelet = Kubelet(client, informers)
        controllers = [
            kind(client, informers, recorder)
            for kind in (
                DeploymentController,
                ReplicaSetController,
                ReplicationControllerController,
                DaemonSetController,
                Scheduler,
            )
        ]
        for kind in (NODES, EVENTS):
            informers.get(kind)
        async with running_parts(*(part.run() for part in (informers, recorder, kubelet, *controllers))):
            yield Cluster(client, informers, kubelet)


async def add_node(client: ApiClient, name: str, **spec: Any) -> None:
    await client.create(NODES, {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "spec": spec})
    status = {
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": NOW}],
    }
    await client.patch(NODES, name, "", {"status": status}, subresource="status")


def deployment(replicas: int = 3, image: str = "nginx:1", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": image}]},
            },
            **spec,
        },
    }


def label_of(app: str) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": app}}}


def image_patch(image: str) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": [{"name": "web", "image": image}]}}}}


async def test_a_deployment_creates_pods_on_all_nodes_and_records_events() -> None:
    async with running() as cluster:
        await cluster.client.create(DEPLOYMENTS, deployment())
        await cluster.until(lambda: cluster.is_rolled_out(1))
        (replica_set,) = cluster.replica_sets()
        revision_hash = replica_set.metadata.labels["pod-template-hash"]
        name = f"web-{revision_hash}"
        assert replica_set.metadata.name == name
        assert {pod.spec.node_name for pod in cluster.pods()} == {"node1", "node2", "node3"}
        for pod in cluster.pods():
            assert pod.metadata.labels == {"app": "web", "pod-template-hash": revision_hash}
            assert pod.metadata.name.startswith(f"{name}-")
        deployed = cluster.deployment()
        conditions = {c.type: (c.status, c.reason, c.message) for c in deployed.status.conditions}
        assert conditions == {
            "Available": ("True", "MinimumReplicasAvailable", "Deployment has minimum availability."),
            "Progressing": ("True", "NewReplicaSetAvailable", f'ReplicaSet "{name}" has successfully progressed.'),
        }
        # Three parts record Events of what they did, each when it has done it.
        await cluster.until(lambda: len(cluster.messages("Pod", "Scheduled")) == 3)
        await cluster.until(lambda: cluster.messages("Deployment") == [f"Scaled up replica set {name} from 0 to 3"])
        created = sorted(f"Created pod: {pod.metadata.name}" for pod in cluster.pods())
        await cluster.until(lambda: sorted(cluster.messages("ReplicaSet")) == created)
        placed = sorted(
            f"Successfully assigned default/{p.metadata.name} to {p.spec.node_name}" for p in cluster.pods()
        )
        assert sorted(cluster.messages("Pod", "Scheduled")) == placed


async def test_a_replication_controller_keeps_its_pods() -> None:
    async with running() as cluster:
        template = {"metadata": {"labels": {"app": "old"}}, "spec": {"containers": [{"name": "a", "image": "nginx"}]}}
        body = {"metadata": {"name": "old"}, "spec": {"replicas": 2, "template": template}}
        await cluster.client.create(REPLICATION_CONTROLLERS, body, "default")

        def status() -> Any:
            (controller,) = cluster.informers.get(REPLICATION_CONTROLLERS).items()
            return controller.status

        await cluster.until(lambda: cluster.pods(app="old") and status().ready_replicas == 2)
        owner = cluster.pods(app="old")[0].metadata.controller
        assert owner is not None
        assert (owner.api_version, owner.kind, owner.name) == ("v1", "ReplicationController", "old")
        scale = {"spec": {"replicas": 1}}
        await cluster.client.patch(REPLICATION_CONTROLLERS, "old", "default", scale, subresource="scale")
        await cluster.until(lambda: len(cluster.pods(app="old")) == 1 and status().replicas == 1)
        released = cluster.pods(app="old")[0].metadata.name
        await cluster.client.patch(PODS, released, "default", {"metadata": {"labels": {"app": "free"}}})
        await cluster.until(lambda: [pod.metadata.controller for pod in cluster.pods(app="free")] == [None])
        await cluster.until(lambda: len(cluster.pods(app="old")) == 1)


async def test_a_rollout_and_its_undo_keep_the_history() -> None:
    async with running() as cluster:
        await cluster.client.create(DEPLOYMENTS, deployment())
        await cluster.until(lambda: cluster.is_rolled_out(1))
        await cluster.patch_deployment(image_patch("nginx:2"))
        await cluster.until(lambda: cluster.is_rolled_out(2))
        old, new = cluster.replica_sets()
        assert (old.spec.replicas, new.spec.replicas) == (0, 3)
        await cluster.until(lambda: len(cluster.messages("Deployment", "ScalingReplicaSet")) == 7)
        assert cluster.messages("Deployment", "ScalingReplicaSet")[1:] == [
            f"Scaled up replica set {new.metadata.name} from 0 to 1",
            f"Scaled down replica set {old.metadata.name} from 3 to 2",
            f"Scaled up replica set {new.metadata.name} from 1 to 2",
            f"Scaled down replica set {old.metadata.name} from 2 to 1",
            f"Scaled up replica set {new.metadata.name} from 2 to 3",
            f"Scaled down replica set {old.metadata.name} from 1 to 0",
        ]
        await cluster.patch_deployment(image_patch("nginx:1"))
        await cluster.until(lambda: cluster.is_rolled_out(3))
        assert [rs.metadata.uid for rs in cluster.replica_sets()] == [new.metadata.uid, old.metadata.uid]
        assert cluster.replica_sets()[1].metadata.annotations["deployment.kubernetes.io/revision-history"] == "1"


@pytest.mark.slow  # waits out a progress deadline of a second
async def test_a_broken_revision_stops_the_rollout_and_a_corrected_one_completes_it() -> None:
    async with running() as cluster:
        cluster.kubelet.broken = lambda pod: pod.spec.containers[0].image == "broken"
        await cluster.client.create(DEPLOYMENTS, deployment(4, progressDeadlineSeconds=1))
        await cluster.until(lambda: cluster.is_rolled_out(1))
        await cluster.patch_deployment(image_patch("broken"))

        def has_timed_out() -> bool:
            conditions = cluster.deployment().status.conditions
            return any(c.reason == "ProgressDeadlineExceeded" and c.status == "False" for c in conditions)

        # A slow machine may need longer for the first steps than the deadline.
        await cluster.until(
            lambda: has_timed_out() and cluster.deployment().status.available_replicas == 3 and len(cluster.pods()) == 5
        )
        await cluster.patch_deployment(image_patch("nginx:3"))
        await cluster.until(lambda: cluster.is_rolled_out(3))
        assert {pod.spec.containers[0].image for pod in cluster.pods()} == {"nginx:3"}


async def test_the_recreate_strategy_never_runs_two_revisions_at_once() -> None:
    async with running() as cluster:
        seen: list[set[str]] = []
        cluster.informers.get(PODS).on_change(
            lambda _old, _new: seen.append({p.spec.containers[0].image for p in cluster.informers.get(PODS).items()})
        )
        await cluster.client.create(DEPLOYMENTS, deployment(strategy={"type": "Recreate"}))
        await cluster.until(lambda: cluster.is_rolled_out(1))
        await cluster.patch_deployment(image_patch("nginx:2"))
        await cluster.until(lambda: cluster.is_rolled_out(2))
        assert {"nginx:1"} in seen
        assert {"nginx:2"} in seen
        assert {"nginx:1", "nginx:2"} not in seen


async def test_a_paused_deployment_holds_the_rollout_and_scales_proportionally() -> None:
    async with running() as cluster:
        await cluster.client.create(DEPLOYMENTS, deployment())
        await cluster.until(lambda: cluster.is_rolled_out(1))
        await cluster.patch_deployment({"spec": {"paused": True}})
        await cluster.patch_deployment(image_patch("nginx:2"))
        await cluster.patch_deployment({"spec": {"replicas": 5}})
        await cluster.until(lambda: cluster.deployment().status.available_replicas == 5)
        assert len(cluster.replica_sets()) == 1
        await cluster.patch_deployment({"spec": {"paused": False}})
        await cluster.until(lambda: cluster.is_rolled_out(2))


async def test_the_revision_history_is_bounded() -> None:
    async with running() as cluster:
        await cluster.client.create(DEPLOYMENTS, deployment(1, revisionHistoryLimit=1))
        await cluster.until(lambda: cluster.is_rolled_out(1))
        for number in (2, 3, 4):
            await cluster.patch_deployment(image_patch(f"nginx:{number}"))
            await cluster.until(lambda number=number: cluster.is_rolled_out(number))
        await cluster.until(lambda: len(cluster.replica_sets()) == 2)
        assert [rs.metadata.annotations[REVISION] for rs in cluster.replica_sets()] == ["3", "4"]


async def test_a_hash_collision_gives_another_hash() -> None:
    async with running() as cluster:
        await cluster.client.create(DEPLOYMENTS, deployment(1))
        await cluster.until(lambda: cluster.is_rolled_out(1))
        (first,) = cluster.replica_sets()
        await cluster.client.delete(DEPLOYMENTS, "web", "default")
        orphan = {"metadata": {"ownerReferences": None, "labels": {"app": "other"}}}
        await cluster.client.patch(REPLICA_SETS, first.metadata.name, "default", orphan)
        await cluster.until(lambda: not cluster.deployment().metadata.name)
        await cluster.client.create(DEPLOYMENTS, deployment(1))
        await cluster.until(lambda: cluster.is_rolled_out(1))
        assert cluster.deployment().status.collision_count == 1
        assert len(cluster.replica_sets()) == 2


async def test_a_deleted_pod_is_replaced_and_an_orphan_is_adopted() -> None:
    async with running() as cluster:
        await cluster.client.create(DEPLOYMENTS, deployment(2))
        await cluster.until(lambda: cluster.is_rolled_out(1))
        first, second = cluster.pods()
        hold: dict[str, Any] = {"metadata": {"finalizers": ["example.com/hold"]}}
        await cluster.client.patch(PODS, first.metadata.name, "default", hold)
        await cluster.client.delete(PODS, first.metadata.name, "default")
        await cluster.until(lambda: len(cluster.pods()) == 2 and first not in cluster.pods())
        await cluster.until(lambda: cluster.deployment().status.terminating_replicas == 1)
        await cluster.client.patch(PODS, first.metadata.name, "default", {"metadata": {"finalizers": None}})
        await cluster.until(lambda: cluster.deployment().status.terminating_replicas == 0)
        # Taken out of its labels a pod is released and replaced; put back it is one too many.
        await cluster.client.patch(PODS, second.metadata.name, "default", label_of("debug"))
        await cluster.until(lambda: len(cluster.pods(app="web")) == 2 and len(cluster.pods()) == 3)
        (released,) = cluster.pods(app="debug")
        assert released.metadata.controller is None
        await cluster.client.patch(PODS, second.metadata.name, "default", label_of("web"))
        await cluster.until(lambda: len(cluster.pods()) == 2)
        assert all(pod.metadata.controller is not None for pod in cluster.pods())
        # A pod that has run to its end is no replica, whatever its labels.
        status = {"status": {"phase": "Succeeded"}}
        await cluster.client.patch(PODS, cluster.pods()[0].metadata.name, "default", label_of("debug"))
        (ended,) = await cluster.until(lambda: [pod for pod in cluster.pods() if pod.metadata.controller is None])
        await cluster.client.patch(PODS, ended.metadata.name, "default", status, subresource="status")
        await cluster.client.patch(PODS, ended.metadata.name, "default", label_of("web"))
        await cluster.client.patch(DEPLOYMENTS, "web", "default", {"spec": {"replicas": 3}})
        await cluster.until(lambda: cluster.deployment().status.ready_replicas == 3)
        assert [pod.metadata.name for pod in cluster.pods() if pod.metadata.controller is None] == [ended.metadata.name]


async def test_a_deployment_reaches_a_hundred_replicas() -> None:
    async with running() as cluster:
        await cluster.client.create(DEPLOYMENTS, deployment(100))
        await cluster.until(lambda: cluster.is_rolled_out(1))
        counts = [sum(pod.spec.node_name == f"node{n}" for pod in cluster.pods()) for n in (1, 2, 3)]
        assert sorted(counts) == [33, 33, 34]
        await cluster.patch_deployment({"spec": {"replicas": 1}})
        await cluster.until(lambda: cluster.is_rolled_out(1) and len(cluster.pods()) == 1)


async def test_an_unchanged_cluster_causes_no_writes() -> None:
    async with running() as cluster:
        await cluster.client.create(DEPLOYMENTS, deployment())
        await cluster.until(lambda: cluster.is_rolled_out(1))
        await cluster.until(lambda: len(cluster.messages("Pod", "Scheduled")) == 3)
        kinds = (DEPLOYMENTS, REPLICA_SETS, PODS)

        async def versions() -> dict[str, str]:
            found = [o for kind in kinds for o in (await cluster.client.list(kind)).items]
            return {o.metadata.name: o.metadata.resource_version for o in found}

        before = await versions()
        recorder = RecorderDouble(cluster.client, "test")
        for kind, controller in ((DEPLOYMENTS, DeploymentController), (REPLICA_SETS, ReplicaSetController)):
            again = controller(cluster.client, cluster.informers, recorder)
            for key in [*cluster.informers.get(kind).keys()] * 3:
                assert await again.reconcile(key) == Done()
        assert await versions() == before
        assert recorder.messages == []


class RecorderDouble(EventRecorder):
    """Keeps messages instead of writing Events."""

    messages: list[str] = []  # noqa: RUF012

    def record(self, about: Any, *, type: str = "Normal", reason: str, message: str, **_: Any) -> None:
        self.messages = [*self.messages, message]


def daemon_set(image: str = "proxy:1", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "proxy", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "proxy"}},
            "template": {
                "metadata": {"labels": {"app": "proxy"}},
                "spec": {"hostNetwork": True, "containers": [{"name": "proxy", "image": image}]},
            },
            **spec,
        },
    }


async def test_a_daemon_set_has_a_pod_on_every_node_including_new_and_cordoned_ones() -> None:
    async with running() as cluster:
        await cluster.client.patch(NODES, "node2", "", {"spec": {"unschedulable": True}})
        await cluster.client.create(DAEMON_SETS, daemon_set())

        def nodes() -> set[str]:
            return {pod.spec.node_name for pod in cluster.pods(app="proxy") if pod.is_ready}

        await cluster.until(lambda: nodes() == {"node1", "node2", "node3"})
        await add_node(cluster.client, "node4")
        taint = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
        await add_node(cluster.client, "node5", taints=[taint])
        await cluster.until(lambda: nodes() == {"node1", "node2", "node3", "node4"})

        def status() -> tuple[int, ...]:
            found = cluster.daemon_set().status
            return (
                found.desired_number_scheduled,
                found.current_number_scheduled,
                found.number_ready,
                found.number_available,
                found.updated_number_scheduled,
                found.number_misscheduled,
            )

        await cluster.until(lambda: status() == (4, 4, 4, 4, 4, 0))


async def test_a_daemon_set_is_updated_one_node_at_a_time() -> None:
    async with running() as cluster:
        await cluster.client.create(DAEMON_SETS, daemon_set())

        def has_rolled_out(image: str) -> bool:
            found = cluster.daemon_set()
            pods = cluster.pods(app="proxy")
            return (
                found.status.observed_generation == found.metadata.generation
                and found.status.updated_number_scheduled == found.status.number_available == 3
                and {pod.spec.containers[0].image for pod in pods} == {image}
            )

        await cluster.until(lambda: has_rolled_out("proxy:1"))
        fewest = 3

        def count(_old: Pod | None, _new: Pod | None) -> None:
            nonlocal fewest
            fewest = min(fewest, sum(pod.is_ready for pod in cluster.pods(app="proxy")))

        cluster.informers.get(PODS).on_change(count)
        patch = {"spec": {"template": {"spec": {"containers": [{"name": "proxy", "image": "proxy:2"}]}}}}
        await cluster.client.patch(DAEMON_SETS, "proxy", "default", patch)
        await cluster.until(lambda: has_rolled_out("proxy:2"))
        assert fewest == 2

        def history() -> list[tuple[int, str]]:
            found = cluster.informers.get(CONTROLLER_REVISIONS).items()
            spec = [one.data["spec"]["template"]["spec"] for one in found]
            return sorted((one.revision, of["containers"][0]["image"]) for one, of in zip(found, spec, strict=True))

        await cluster.until(lambda: history() == [(1, "proxy:1"), (2, "proxy:2")])
        # The patch that `kubectl rollout undo` sends.
        (first,) = (one for one in cluster.informers.get(CONTROLLER_REVISIONS).items() if one.revision == 1)
        await cluster.client.patch(DAEMON_SETS, "proxy", "default", first.data, "strategic")
        await cluster.until(lambda: has_rolled_out("proxy:1"))
        await cluster.until(lambda: history() == [(2, "proxy:2"), (3, "proxy:1")])
        hashes = {pod.metadata.labels["controller-revision-hash"] for pod in cluster.pods(app="proxy")}
        assert hashes == {first.metadata.labels["controller-revision-hash"]}


@pytest.mark.slow  # waits out a back-off of a second
async def test_an_unschedulable_pod_has_a_reason_and_is_retried() -> None:
    async with running(nodes=2) as cluster:
        pod = {
            "metadata": {"name": "picky", "namespace": "default"},
            "spec": {"nodeSelector": {"disk": "ssd"}, "containers": [{"name": "a", "image": "nginx"}]},
        }
        await cluster.client.create(PODS, pod)
        message = (
            "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. "
            "no new claims to deallocate, "
            "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
        )

        def condition() -> tuple[str, str, str] | None:
            found = [c for pod in cluster.pods() for c in pod.status.conditions if c.type == "PodScheduled"]
            return (found[0].status, found[0].reason, found[0].message) if found else None

        await cluster.until(lambda: condition() == ("False", "Unschedulable", message))
        await cluster.until(lambda: message in cluster.messages("Pod", "FailedScheduling"))
        await cluster.client.patch(NODES, "node2", "", {"metadata": {"labels": {"disk": "ssd"}}})
        await cluster.until(lambda: cluster.pods()[0].spec.node_name == "node2")
        assert (condition() or ())[:1] == ("True",)


async def test_pods_of_higher_priority_are_scheduled_first() -> None:
    async def prepare(client: ApiClient) -> None:
        for name, value in (("a-low", 1), ("b-high", 100)):
            metadata = {"name": name, "namespace": "default"}
            # A pod that preempts no other comes before those of lower priority, too.
            priority = {"metadata": {"name": name}, "value": value, "preemptionPolicy": "Never"}
            await client.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", json=priority)
            port = {"containerPort": 80, "hostPort": 80}
            containers = [{"name": "a", "image": "nginx", "ports": [port]}]
            await client.create(
                PODS, {"metadata": metadata, "spec": {"priorityClassName": name, "containers": containers}}
            )

    async with running(nodes=1, prepare=prepare) as cluster:
        (pod,) = await cluster.until(lambda: [pod for pod in cluster.pods() if pod.spec.node_name])
        assert pod.metadata.name == "b-high"


async def test_pods_of_other_schedulers_and_gated_pods_are_not_scheduled() -> None:
    async with running(nodes=1) as cluster:
        containers = [{"name": "a", "image": "nginx"}]
        for name, spec in (
            ("foreign", {"schedulerName": "other"}),
            ("gated", {"schedulingGates": [{"name": "example.com/wait"}]}),
            ("plain", {}),
        ):
            metadata = {"name": name, "namespace": "default"}
            await cluster.client.create(PODS, {"metadata": metadata, "spec": {"containers": containers, **spec}})

        def placed() -> set[str]:
            return {pod.metadata.name for pod in cluster.pods() if pod.spec.node_name}

        await cluster.until(lambda: placed() == {"plain"} and len(cluster.pods()) == 3)
        await cluster.client.patch(PODS, "gated", "default", {"spec": {"schedulingGates": None}})
        await cluster.until(lambda: placed() == {"plain", "gated"})


async def test_a_pod_that_waits_is_tried_again_when_its_labels_change() -> None:
    async with running(nodes=1) as cluster:
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"group": "g"}}}
        affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        spec = {"affinity": affinity, "containers": [{"name": "a", "image": "nginx"}]}
        await cluster.client.create(PODS, {"metadata": {"name": "social", "namespace": "default"}, "spec": spec})
        await cluster.until(lambda: cluster.messages("Pod", "FailedScheduling"))
        await cluster.client.patch(PODS, "social", "default", {"metadata": {"labels": {"group": "g"}}})
        await cluster.until(lambda: cluster.pods()[0].spec.node_name)


async def test_refused_pod_creations_are_reported_on_the_deployment() -> None:
    async with running() as cluster:
        wanted = deployment()
        wanted["spec"]["template"]["spec"]["serviceAccountName"] = "nobody"
        await cluster.client.create(DEPLOYMENTS, wanted)

        def failure() -> str:
            conditions = cluster.deployment().status.conditions
            return next((c.message for c in conditions if c.type == "ReplicaFailure"), "")

        message = await cluster.until(failure)
        assert 'error looking up service account default/nobody: serviceaccount "nobody" not found' in message
        await cluster.until(lambda: f"Error creating: {message}" in cluster.messages("ReplicaSet", "FailedCreate"))
        await cluster.client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "nobody", "namespace": "default"}})
        await cluster.until(lambda: cluster.is_rolled_out(1) and not failure())


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_many_overlapping_updates_end_in_the_last_wanted_state(seed: int) -> None:
    """Scaling, rollouts, undos and deletions overlap; the number of pods stays near the largest wanted one."""
    chance = random.Random(seed)
    async with running() as cluster:
        await cluster.client.create(DEPLOYMENTS, deployment(5))
        await cluster.until(lambda: cluster.is_rolled_out(1))
        most, peak, image = 5, 0, "nginx:1"

        def count(_old: Pod | None, _new: Pod | None) -> None:
            nonlocal peak
            peak = max(peak, len(cluster.pods()))

        cluster.informers.get(PODS).on_change(count)
        for _ in range(30):
            match chance.choice(("scale", "roll", "delete")):
                case "scale":
                    replicas = chance.randint(0, 12)
                    most = max(most, replicas)
                    await cluster.patch_deployment({"spec": {"replicas": replicas}})
                case "roll":
                    image = f"nginx:{chance.randint(1, 5)}"
                    await cluster.patch_deployment(image_patch(image))
                case "delete" if pods := cluster.pods():
                    with contextlib.suppress(NotFound):
                        await cluster.client.delete(PODS, chance.choice(pods).metadata.name, "default")
        await cluster.patch_deployment({"spec": {"replicas": 4}})

        def is_settled() -> bool:
            wanted, pods = cluster.deployment(), cluster.pods()
            return (
                wanted.status.observed_generation == wanted.metadata.generation
                and wanted.status.updated_replicas == wanted.status.replicas == wanted.status.available_replicas == 4
                and len(pods) == 4
                and {pod.spec.containers[0].image for pod in pods} == {image}
            )

        await cluster.until(is_settled)
        # A revision that shrinks and one that grows may overlap for a moment after each resize.
        assert peak <= 2 * most
