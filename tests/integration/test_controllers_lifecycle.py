"""Namespaces, garbage, nodes and their pods against the real API server."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bridgehead.client import ApiClient, ClientConfig, Done, EventRecorder, Requeue, renew_lease
from bridgehead.client.discovery import metadata_kind
from bridgehead.client.errors import Conflict, NotFound, Unreachable
from bridgehead.controllers.manager import CONTROLLERS, Entry, Manager, Settings
from bridgehead.controllers.nodes.pod_garbage import PodGarbageCollector
from bridgehead.controllers.nodes.taint_eviction import TaintEvictionController
from bridgehead.controllers.nodes.watch_clock import WatchClock
from bridgehead.controllers.shared_informers import Informers
from bridgehead.objects.kinds import (
    CONFIG_MAPS,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    SECRETS,
    SERVICE_ACCOUNTS,
    Kind,
)
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.times import format_micro_time, format_time

from .api_world import api_world, running, until, until_seen
from .apiserver_process import ServerProcess, write_files

pytestmark = pytest.mark.integration

DEFAULT_ACCOUNT = {"metadata": {"name": "default", "namespace": "default"}}
LIFECYCLE = (
    "node-lifecycle-controller",
    "taint-eviction-controller",
    "serviceaccount-controller",
    "root-ca-certificate-publisher-controller",
    "namespace-controller",
    "garbage-collector-controller",
)


@contextlib.asynccontextmanager
async def cluster(
    *names: str, controllers: dict[str, Entry] = CONTROLLERS, aggregates: bool = False, **settings: Any
) -> AsyncIterator[ApiClient]:
    """A client of an API server for which these controllers run. `aggregates`: it has aggregated APIs."""
    chosen = Settings(root_ca="PEM\n", **settings)
    async with (
        api_world() as world,
        ApiClient(world.config) as client,
        running(*([world.parts.aggregator.run()] if aggregates else [])),
        running(Manager(client, names, chosen, controllers).run()),
    ):
        yield client


async def exists(client: ApiClient, kind: Kind[Any], name: str, namespace: str = "") -> Any:
    try:
        return await client.get(kind, name, namespace)
    except NotFound:
        return None


def gone(client: ApiClient, kind: Kind[Any], name: str, namespace: str = "default") -> Any:
    async def is_gone() -> bool:
        return await exists(client, kind, name, namespace) is None

    return is_gone


def config_map(name: str, *owners: Any, finalizers: tuple[str, ...] = (), block: bool = True) -> dict[str, Any]:
    references = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner.metadata.name,
            "uid": owner.metadata.uid,
            "blockOwnerDeletion": block,
        }
        for owner in owners
    ]
    metadata = {"name": name, "namespace": "default", "ownerReferences": references, "finalizers": list(finalizers)}
    return {"metadata": metadata}


def pod(name: str, node: str = "", namespace: str = "default", tolerations: list[Any] | None = None) -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 30}
    if node:
        spec["nodeName"] = node
    if tolerations is not None:
        spec["tolerations"] = tolerations
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


async def register_node(client: ApiClient, name: str, renewed: float = 0.0) -> None:
    await client.create(NODES, {"metadata": {"name": name}})
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": format_time(renewed)}
    await client.patch(NODES, name, "", {"status": {"conditions": [ready]}}, "strategic", "status")
    await client.create(
        LEASES,
        {
            "metadata": {"name": name, "namespace": "kube-node-lease"},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": format_micro_time(renewed)},
        },
    )


@contextlib.asynccontextmanager
async def living_node(client: ApiClient, name: str) -> AsyncIterator[asyncio.Lock]:
    """A Node whose Lease is renewed for as long as the block lasts, except while the caller holds the lock."""
    renewing = asyncio.Lock()

    async def renew() -> None:
        while True:
            async with renewing:
                await renew_lease(client, ObjectKey("kube-node-lease", name), holder=name, duration_seconds=40)
            await asyncio.sleep(0.05)

    await register_node(client, name)
    async with running(renew()):
        yield renewing


async def test_every_controller_starts_and_stops():
    async with cluster(*CONTROLLERS) as client:
        assert await until(lambda: exists(client, SERVICE_ACCOUNTS, "default", "kube-system"))


async def test_namespaces_get_a_service_account_and_the_root_certificate():
    async with cluster("serviceaccount-controller", "root-ca-certificate-publisher-controller") as client:
        await client.create(NAMESPACES, {"metadata": {"name": "blue"}})
        await until(lambda: exists(client, SERVICE_ACCOUNTS, "default", "blue"))
        found = await until(lambda: exists(client, CONFIG_MAPS, "kube-root-ca.crt", "blue"))
        assert found.data == {"ca.crt": "PEM\n"}

        await client.delete(SERVICE_ACCOUNTS, "default", "blue")
        await client.patch(CONFIG_MAPS, "kube-root-ca.crt", "blue", {"data": {"ca.crt": "wrong", "more": "x"}})
        await until(lambda: exists(client, SERVICE_ACCOUNTS, "default", "blue"))

        async def is_repaired() -> bool:
            return (await client.get(CONFIG_MAPS, "kube-root-ca.crt", "blue")).data == {"ca.crt": "PEM\n"}

        await until(is_repaired)


async def test_deleting_a_namespace_empties_it():
    async with cluster(*LIFECYCLE) as client:
        await client.create(NAMESPACES, {"metadata": {"name": "blue"}})
        for kind, name in ((CONFIG_MAPS, "kube-root-ca.crt"), (SERVICE_ACCOUNTS, "default")):
            await until(lambda kind=kind, name=name: exists(client, kind, name, "blue"))
        await client.create(NODES, {"metadata": {"name": "node1"}})
        await client.create(PODS, pod("web", "node1", "blue"))
        await client.create(SECRETS, {"metadata": {"name": "s", "namespace": "blue"}})
        await client.create(LEASES, {"metadata": {"name": "l", "namespace": "blue"}, "spec": {"holderIdentity": "x"}})
        await client.create(NAMESPACES, {"metadata": {"name": "green"}})
        await client.create(SECRETS, {"metadata": {"name": "s", "namespace": "green"}})
        await client.delete(NAMESPACES, "blue")

        async def waits_for_its_pod() -> bool:
            namespace = await client.get(NAMESPACES, "blue")
            remaining = [c for c in namespace.status.conditions if c.type == "NamespaceContentRemaining"]
            return bool(remaining) and remaining[0].message == (
                "Some resources are remaining: pods. has 1 resource instances"
            )

        await until(waits_for_its_pod)
        assert (await client.get(PODS, "web", "blue")).is_terminating
        assert await exists(client, SECRETS, "s", "blue"), "pods go first"

        await client.delete(PODS, "web", "blue", grace_period_seconds=0)
        await until(gone(client, NAMESPACES, "blue", ""))
        everything: tuple[Kind[Any], ...] = (PODS, SECRETS, LEASES, CONFIG_MAPS, SERVICE_ACCOUNTS)
        for kind_ in everything:
            assert (await client.list(kind_, "blue")).items == []
        assert await exists(client, SECRETS, "s", "green")


async def test_dependents_are_deleted_with_their_last_owner():
    async with cluster("garbage-collector-controller") as client:
        one = await client.create(CONFIG_MAPS, config_map("one"))
        two = await client.create(CONFIG_MAPS, config_map("two"))
        child = await client.create(CONFIG_MAPS, config_map("child", one, two))
        await client.create(CONFIG_MAPS, config_map("grandchild", child))
        await client.delete(CONFIG_MAPS, "one", "default")
        await client.delete(CONFIG_MAPS, "two", "default")
        await until(gone(client, CONFIG_MAPS, "child"))
        await until(gone(client, CONFIG_MAPS, "grandchild"))


async def test_a_reference_to_a_deleted_owner_is_dropped_while_another_owner_exists():
    async with cluster("garbage-collector-controller") as client:
        one = await client.create(CONFIG_MAPS, config_map("one"))
        two = await client.create(CONFIG_MAPS, config_map("two"))
        await client.create(CONFIG_MAPS, config_map("child", one, two))

        async def owners_are_two() -> bool:
            found = await client.get(CONFIG_MAPS, "child", "default")
            return [owner.name for owner in found.metadata.owner_references] == ["two"]

        await client.delete(CONFIG_MAPS, "one", "default")
        await until(owners_are_two)


async def test_an_owner_with_another_uid_or_namespace_is_not_the_owner():
    async with cluster("garbage-collector-controller") as client:
        await client.create(NAMESPACES, {"metadata": {"name": "other"}})
        document = config_map("elsewhere")
        document["metadata"]["namespace"] = "other"
        elsewhere = await client.create(CONFIG_MAPS, document)
        await client.create(CONFIG_MAPS, config_map("stray", elsewhere))
        await until(gone(client, CONFIG_MAPS, "stray"))
        assert await exists(client, CONFIG_MAPS, "elsewhere", "other")

        async def is_reported() -> bool:
            events = (await client.list(EVENTS, namespace="default")).items
            return [(one.reason, one.message) for one in events if one.involved_object.name == "stray"] == [
                (
                    "OwnerRefInvalidNamespace",
                    f"ownerRef [v1/ConfigMap, namespace: default, name: elsewhere, uid: {elsewhere.metadata.uid}] does "
                    'not exist in namespace "default"',
                )
            ]

        await until(is_reported)
        one = await client.create(CONFIG_MAPS, config_map("one"))
        await client.delete(CONFIG_MAPS, "one", "default")
        await client.create(CONFIG_MAPS, config_map("one"))
        await client.create(CONFIG_MAPS, config_map("child", one))
        await until(gone(client, CONFIG_MAPS, "child"))
        assert await exists(client, CONFIG_MAPS, "one", "default")


async def test_foreground_deletion_removes_dependents_before_the_owner():
    async with cluster("garbage-collector-controller") as client:
        owner = await client.create(CONFIG_MAPS, config_map("owner"))
        held = await client.create(CONFIG_MAPS, config_map("held", owner, finalizers=("example.com/hold",)))
        await client.create(CONFIG_MAPS, config_map("below", held))
        await client.delete(CONFIG_MAPS, "owner", "default", propagation_policy="Foreground")

        async def is_being_deleted() -> bool:
            found = await client.get(CONFIG_MAPS, "held", "default")
            return found.metadata.deletion_timestamp is not None

        await until(is_being_deleted)
        waiting = await client.get(CONFIG_MAPS, "owner", "default")
        assert waiting.metadata.finalizers == ("foregroundDeletion",)
        await until(gone(client, CONFIG_MAPS, "below"))

        async def let_go() -> bool:
            found = await client.get(CONFIG_MAPS, "held", "default")
            left = [f for f in found.metadata.finalizers if f != "example.com/hold"]
            metadata = {"finalizers": left or None, "resourceVersion": found.metadata.resource_version}
            with contextlib.suppress(Conflict):  # the collector takes its own away at the same moment
                await client.patch(CONFIG_MAPS, "held", "default", {"metadata": metadata})
                return True
            return False

        await until(let_go)
        await until(gone(client, CONFIG_MAPS, "held"))
        await until(gone(client, CONFIG_MAPS, "owner"))


async def test_orphaned_dependents_are_kept_without_their_owner():
    async with cluster("garbage-collector-controller") as client:
        owner = await client.create(CONFIG_MAPS, config_map("owner"))
        await client.create(CONFIG_MAPS, config_map("child", owner))
        # The collector's picture must have the child before its owner goes, as with Kubernetes' own.
        probe = await client.create(CONFIG_MAPS, config_map("probe"))
        await client.create(CONFIG_MAPS, config_map("probed", probe))
        await client.delete(CONFIG_MAPS, "probe", "default")
        await until(gone(client, CONFIG_MAPS, "probed"))

        await client.delete(CONFIG_MAPS, "owner", "default", propagation_policy="Orphan")
        await until(gone(client, CONFIG_MAPS, "owner"))
        child = await client.get(CONFIG_MAPS, "child", "default")
        assert child.metadata.owner_references == ()
        assert child.metadata.deletion_timestamp is None


async def test_objects_with_owners_of_unknown_kinds_are_kept():
    async with cluster("garbage-collector-controller") as client:
        strange = config_map("strange")
        strange["metadata"]["ownerReferences"] = [
            {
                "apiVersion": "example.com/v1",
                "kind": "Widget",
                "name": "w",
                "uid": "11111111-1111-4111-8111-111111111111",
            }
        ]
        await client.create(CONFIG_MAPS, strange)
        owner = await client.create(CONFIG_MAPS, config_map("owner"))
        await client.create(CONFIG_MAPS, config_map("child", owner))
        await client.delete(CONFIG_MAPS, "owner", "default")
        await until(gone(client, CONFIG_MAPS, "child"))
        assert await exists(client, CONFIG_MAPS, "strange", "default")


def definition(plural: str, kind: str, version: str) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
        },
    }


async def test_an_aggregated_api_that_does_not_answer_delays_only_namespaces():
    async with cluster("garbage-collector-controller", "namespace-controller", aggregates=True) as client:
        services = metadata_kind("apiregistration.k8s.io", "v1", "apiservices", "APIService", False)
        spec = {"group": "gone.example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}
        spec["service"] = {"namespace": "default", "name": "nowhere"}
        await client.create(services, {"metadata": {"name": "v1.gone.example.com"}, "spec": spec})

        async def is_listed() -> bool:
            groups = await client.request("GET", "/apis")
            return "gone.example.com" in [group["name"] for group in groups["groups"]]

        await until(is_listed)
        await client.create(NAMESPACES, {"metadata": {"name": "blue"}})
        await client.create(SECRETS, {"metadata": {"name": "s", "namespace": "blue"}})
        await client.delete(NAMESPACES, "blue")

        async def failure() -> str:
            conditions = (await client.get(NAMESPACES, "blue")).status.conditions
            return next((c.message for c in conditions if c.reason == "DiscoveryFailed"), "")

        text = "Discovery failed for some groups: unable to retrieve the complete list of server APIs: "
        assert (await until(failure)).startswith(f"{text}gone.example.com/v1: ")
        await until(gone(client, SECRETS, "s", "blue"))
        assert await exists(client, NAMESPACES, "blue"), "nobody knows what else is in it"
        await client.delete(services, "v1.gone.example.com")
        await until(gone(client, NAMESPACES, "blue", ""))


async def test_custom_resources_that_come_and_go_own_and_are_collected():
    async with cluster("garbage-collector-controller", "namespace-controller") as client:
        definitions = metadata_kind(
            "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
        )
        widgets = metadata_kind("example.com", "v1", "widgets", "Widget", True)
        gadgets = metadata_kind("example.com", "v1beta1", "gadgets", "Gadget", True)

        def created(kind: Kind[Any], obj: dict[str, Any]) -> Any:
            async def create() -> Any:
                try:
                    return await client.create(kind, obj)
                except NotFound:  # the definition is not established yet
                    return None

            return until(create)

        await client.create(definitions, definition("widgets", "Widget", "v1"))
        await client.create(definitions, definition("gadgets", "Gadget", "v1beta1"))
        owner = await created(widgets, {"metadata": {"name": "owner", "namespace": "default"}})
        child = config_map("child", owner)
        child["metadata"]["ownerReferences"][0] |= {"apiVersion": "example.com/v1", "kind": "Widget"}
        await client.create(CONFIG_MAPS, child)
        # A namespace is emptied also of a kind that its group's preferred version does not have.
        await client.create(NAMESPACES, {"metadata": {"name": "blue"}})
        await created(gadgets, {"metadata": {"name": "g", "namespace": "blue"}})
        await client.delete(NAMESPACES, "blue")
        await until(gone(client, NAMESPACES, "blue", ""))
        # The instances go with their definition, and their dependents with them.
        await client.delete(definitions, "widgets.example.com")
        await until(gone(client, definitions, "widgets.example.com", ""))
        await until(gone(client, CONFIG_MAPS, "child"))


async def test_a_silent_node_becomes_unreachable_and_its_pods_not_ready():
    async with cluster(*LIFECYCLE, node_monitor_grace_period=0.5) as client, living_node(client, "node2"):
        await until(lambda: exists(client, SERVICE_ACCOUNTS, "default", "default"))
        await client.create(PODS, pod("web", "node1"))
        key = "node.kubernetes.io/unreachable"
        no_patience = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}
        await client.create(PODS, pod("impatient", "node1", tolerations=[no_patience]))
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": format_time(0)}
        await client.patch(PODS, "web", "default", {"status": {"conditions": [ready]}}, "strategic", "status")
        await register_node(client, "node1")  # last: it is silent from here on

        async def is_tainted() -> Any:
            node = await client.get(NODES, "node1")
            keys = {(taint.key, taint.effect) for taint in node.spec.taints}
            unreachable = "node.kubernetes.io/unreachable"
            return node if {(unreachable, "NoSchedule"), (unreachable, "NoExecute")} <= keys else None

        node = await until(is_tainted)
        (condition,) = (c for c in node.status.conditions if c.type == "Ready")
        assert (condition.status, condition.reason) == ("Unknown", "NodeStatusUnknown")
        assert condition.message == "Kubelet stopped posting node status."

        async def web_is_not_ready() -> bool:
            return not (await client.get(PODS, "web", "default")).is_ready

        async def impatient_is_leaving() -> bool:
            found = await client.get(PODS, "impatient", "default")
            disrupted = [c for c in found.status.conditions if c.type == "DisruptionTarget"]
            return found.is_terminating and bool(disrupted) and disrupted[0].reason == "DeletionByTaintManager"

        await until(web_is_not_ready)
        await until(impatient_is_leaving)
        assert not (await client.get(PODS, "web", "default")).is_terminating, "it tolerates this for 300 s"

        async def has_recorded() -> bool:
            events = (await client.list(EVENTS)).items
            seen = {(e.involved_object.kind, e.reason, e.count) for e in events}
            return {("Node", "RegisteredNode", 1), ("Node", "NodeNotReady", 1), ("Pod", "NodeNotReady", 1)} <= seen

        await until(has_recorded)

        # The node comes back, and renews its Lease again before it is taken for silent.
        heartbeats = itertools.count(99)

        async def is_clean() -> bool:
            beat = format_time(next(heartbeats))
            ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": beat}
            await client.patch(NODES, "node1", "", {"status": {"conditions": [ready]}}, "strategic", "status")
            return (await client.get(NODES, "node1")).spec.taints == ()

        await until(is_clean)


async def test_pods_of_a_node_that_reports_not_ready_are_marked_once():
    async with cluster("node-lifecycle-controller", "serviceaccount-controller") as client:
        await until(lambda: exists(client, SERVICE_ACCOUNTS, "default", "default"))
        await register_node(client, "node1")
        await client.create(PODS, pod("web", "node1"))
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": format_time(0)}
        await client.patch(PODS, "web", "default", {"status": {"conditions": [ready]}}, "strategic", "status")

        async def report(status: str, heartbeat: int) -> None:
            condition = {"type": "Ready", "status": status, "lastHeartbeatTime": format_time(heartbeat)}
            await client.patch(NODES, "node1", "", {"status": {"conditions": [condition]}}, "strategic", "status")

        async def web_is_not_ready() -> bool:
            return not (await client.get(PODS, "web", "default")).is_ready

        async def keys() -> set[str]:
            return {taint.key for taint in (await client.get(NODES, "node1")).spec.taints}

        async def is_tainted() -> bool:
            return "node.kubernetes.io/not-ready" in await keys()

        await report("False", 1)
        await until(web_is_not_ready)
        await until(is_tainted)
        await client.patch(PODS, "web", "default", {"status": {"conditions": [ready]}}, "strategic", "status")
        await report("False", 2)
        await client.patch(NODES, "node1", "", {"spec": {"unschedulable": True}})

        async def is_cordoned() -> bool:
            return "node.kubernetes.io/unschedulable" in await keys()

        await until(is_cordoned)  # by then the controller has seen the second heartbeat, too
        assert not await web_is_not_ready()


async def test_pods_of_a_deleted_node_are_removed():
    async with api_world() as world, ApiClient(world.config) as client:
        informers = Informers(client)
        recorder = EventRecorder(client, "test")
        watch_clock = WatchClock(client, informers.get(LEASES))
        collector = PodGarbageCollector(client, informers, recorder, watch_clock=watch_clock, quarantine_seconds=0)
        await client.create(SERVICE_ACCOUNTS, DEFAULT_ACCOUNT)
        await client.create(NODES, {"metadata": {"name": "node1"}})
        await client.create(NODES, {"metadata": {"name": "node2"}})
        await client.create(PODS, pod("one", "node1"))
        await client.create(PODS, pod("two", "node2"))
        async with running(informers.run(), collector.run()):
            await client.delete(PODS, "one", "default")
            await client.delete(NODES, "node1")
            await until(gone(client, PODS, "one"))
            # A node that is not ready may stop its pod yet, unless a user knows that the node is shut down.
            await client.delete(PODS, "two", "default")
            assert await exists(client, PODS, "two", "default")
            taint = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
            await client.patch(NODES, "node2", "", {"spec": {"taints": [taint]}})
            await until(gone(client, PODS, "two"))


async def test_a_taint_of_a_user_evicts_a_pod_when_its_toleration_has_ended(monkeypatch):
    """Such a taint has no `timeAdded`. The wait begins anew with the next taint."""
    async with api_world() as world, ApiClient(world.config) as client:
        informers, now = Informers(client), 1000.0
        recorder = EventRecorder(client, "test")
        controller = TaintEvictionController(client, informers, recorder, now=lambda: now)
        nodes, pods = informers.get(NODES), informers.get(PODS)
        await client.create(SERVICE_ACCOUNTS, DEFAULT_ACCOUNT)
        await client.create(NODES, {"metadata": {"name": "node1"}})
        patient = {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 100}
        await client.create(PODS, pod("one", "node1", tolerations=[patient]))
        key = ObjectKey("default", "one")

        async def taint(*taints):
            await client.patch(NODES, "node1", "", {"spec": {"taints": list(taints)}})

            def is_seen() -> bool:
                node = nodes.get(ObjectKey("", "node1"))
                return node is not None and len(node.spec.taints) == len(taints)

            await until_seen(is_seen, nodes)

        async def unreachable(*_: object, **__: object) -> None:
            raise Unreachable("connection refused")

        async with running(informers.run(), recorder.run()):
            await until_seen(lambda: pods.get(key) and nodes.get(ObjectKey("", "node1")), pods, nodes)
            await taint({"key": "k", "effect": "NoExecute"})
            assert await controller.reconcile(key) == Requeue(100)
            now += 60
            assert await controller.reconcile(key) == Requeue(40)
            await taint()
            assert await controller.reconcile(key) == Done()
            await taint({"key": "k", "effect": "NoExecute"})
            assert await controller.reconcile(key) == Requeue(100)
            now += 100
            with monkeypatch.context() as patched:
                patched.setattr(client, "delete", unreachable)
                with pytest.raises(Unreachable):  # after which the queue tries again
                    await controller.reconcile(key)
            assert await controller.reconcile(key) == Done()
            assert (await client.get(PODS, "one", "default")).is_terminating

            async def has_recorded() -> bool:
                return {event.message for event in (await client.list(EVENTS)).items} == {
                    "Cancelling deletion of Pod default/one", "Marking for deletion Pod default/one",
                }  # fmt: skip

            await until(has_recorded)


async def test_a_replica_set_keeps_its_pods_when_the_controllers_restart():
    async with api_world() as world, ApiClient(world.config) as client:
        await client.create(SERVICE_ACCOUNTS, DEFAULT_ACCOUNT)
        template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
        names = ("replicaset-controller", "garbage-collector-controller")

        async def pods() -> list[str]:
            return sorted(pod.metadata.uid for pod in (await client.list(PODS)).items)

        async def two_pods() -> list[str]:
            found = await pods()
            return found if len(found) == 2 else []

        async with running(Manager(client, names).run()):
            await client.create(REPLICA_SETS, {"metadata": {"name": "web", "namespace": "default"}, "spec": spec})
            before = await until(two_pods)
        async with running(Manager(client, names).run()):
            owner = await client.create(CONFIG_MAPS, config_map("owner"))
            await client.create(CONFIG_MAPS, config_map("child", owner))
            await client.delete(CONFIG_MAPS, "owner", "default")
            await until(gone(client, CONFIG_MAPS, "child"))
            assert await pods() == before
            await client.delete(REPLICA_SETS, "web", "default")

            async def no_pods() -> bool:
                return not await pods()

            await until(no_pods)


async def test_a_silent_node_keeps_its_pods_until_another_node_is_healthy():
    """The Node becomes NotReady, while its pod stays ready as long as no other node is healthy."""
    async with cluster(*LIFECYCLE, node_monitor_grace_period=0.5) as client:
        await until(lambda: exists(client, SERVICE_ACCOUNTS, "default", "default"))
        await client.create(PODS, pod("web", "node1"))
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": format_time(0)}
        await client.patch(PODS, "web", "default", {"status": {"conditions": [ready]}}, "strategic", "status")
        await register_node(client, "node1")

        async def is_tainted() -> Any:
            return (await client.get(NODES, "node1")).spec.taints

        assert [taint.effect for taint in await until(is_tainted)] == ["NoSchedule"]
        assert (await client.get(PODS, "web", "default")).is_ready
        async with living_node(client, "node2"):

            async def web_is_not_ready() -> bool:
                return not (await client.get(PODS, "web", "default")).is_ready

            await until(web_is_not_ready)


async def has_events(client: ApiClient, reason: str, *nodes: str) -> bool:
    """Whether there is such an Event about each of these."""
    events = (await client.list(EVENTS)).items
    return set(nodes) <= {event.involved_object.name for event in events if event.reason == reason}


async def test_nodes_are_not_marked_as_silent_after_an_outage_of_the_api_server(tmp_path):
    """The API server stops for several grace periods, in which no heartbeat can arrive."""
    write_files(tmp_path)
    server = ServerProcess(tmp_path)
    server.start()
    try:
        config = ClientConfig(server=server.url, token="admin-token", ca=(tmp_path / "ca.crt").read_bytes())
        names = ("node-lifecycle-controller", "serviceaccount-controller")
        grace_seconds = 2.0
        manager = Manager(ApiClient(config), names, Settings(node_monitor_grace_period=grace_seconds))
        async with (
            manager.client as client,
            running(manager.run()),
            living_node(client, "node1") as node1,
            living_node(client, "node2") as node2,
        ):
            await until(lambda: exists(client, SERVICE_ACCOUNTS, "default", "default"))
            await client.create(PODS, pod("web", "node1"))
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": format_time(0)}
            await client.patch(PODS, "web", "default", {"status": {"conditions": [ready]}}, "strategic", "status")
            await until(lambda: has_events(client, "RegisteredNode", "node1", "node2"))
            async with node1, node2:  # no heartbeat waits for the server to go on
                server.send_signal(signal.SIGSTOP)
                await asyncio.sleep(3 * grace_seconds)  # silence is tested: nothing may follow from it
                server.send_signal(signal.SIGCONT)
                await client.list(NODES)
            await register_node(client, "node3")
            await until(lambda: has_events(client, "RegisteredNode", "node3"))
            assert not await has_events(client, "NodeNotReady", "node1")
            assert not await has_events(client, "NodeNotReady", "node2")
            assert (await client.get(PODS, "web", "default")).is_ready
    finally:
        server.close()
