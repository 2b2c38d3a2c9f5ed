"""The life of pods: a kubelet with the fake runtime against a real API server."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import re
import signal

import aiohttp
import msgspec
import pytest

from bridgehead.backoff import KeyedBackoff
from bridgehead.client.errors import ApiError, NotFound
from bridgehead.kubelet.pods import pod_resize
from bridgehead.kubelet.runtimes.runtime import ContainerRefused, ExecResult, ImageUnavailable, RuntimeFeatures
from bridgehead.objects.kinds import (
    CONFIG_MAPS,
    CSI_NODES,
    EVENTS,
    LEASES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    SERVICES,
)
from bridgehead.streaming import spdy
from tests.integration.fake_runtime import Behaviour
from tests.spdy_client import ClientWriter

from .api_world import until
from .kubelet_world import DEADLINE, container, is_running, open_world, waits_for

pytestmark = pytest.mark.integration


def answers(code, output=b""):
    return lambda spec, argv: ExecResult(exit_code=code, output=output)


IMAGES = {
    "app:1": Behaviour(),
    "app:2": Behaviour(),
    "stubborn:1": Behaviour(ignores_term=True),
    "job:1": Behaviour(exits_with=0),
    "crash:1": Behaviour(exits_with=3, volumes=("/data",)),
    "sick:1": Behaviour(exec=answers(1, b"I am sick")),
    "broken:1": Behaviour(fails_to_start='exec: "nonsense": executable file not found in $PATH'),
}


@pytest.fixture
async def world(tmp_path):
    async with open_world(tmp_path, IMAGES) as world:
        yield world


async def test_a_pod_becomes_ready_and_is_deleted(world):
    await world.start_kubelet()
    await world.create("web")
    pod = await world.until("web", is_running)
    assert pod.status.pod_ip == "10.244.1.2"
    assert pod.status.host_ip == "127.0.0.1"
    assert pod.status.container_statuses[0].container_id.startswith("bridgehead://")
    await world.until_event(
        "web", "Pulled", 'Container image "app:1" already present on machine and can be accessed by the pod'
    )
    await world.until_event("web", "Created", "Container created")
    await world.until_event("web", "Started", "Container started")
    await world.admin.delete(PODS, "web", "default")
    await world.until_gone("web")
    await world.until_event("web", "Killing", "Stopping container app")
    assert world.runtime.signals == [("app", signal.SIGTERM)]
    assert world.runtime.sandboxes == {}


async def test_users_that_images_may_need_and_the_lab_lacks_are_named(world):
    world.runtime.features = RuntimeFeatures(last_id=0)
    await world.start_kubelet()
    await world.create("web")
    await world.until("web", is_running)
    await world.until_event("web", "UsersMissing", "users with ids above 0 do not exist in this lab: programs of the")
    # A container that asks for one, of whatever image.
    await world.create("other", containers=[container(securityContext={"runAsUser": 1000})])
    await world.until_event("other", "UsersMissing", "users with ids above 0 do not exist in this lab: ")


async def test_a_running_pod_gets_an_ephemeral_container_once(world):
    await world.start_kubelet()
    await world.create("web")
    await world.until("web", is_running)
    change = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "job:1"}]}}
    await world.admin.patch(PODS, "web", "default", change, "strategic", "ephemeralcontainers")

    def has_ended(pod):
        statuses = pod.status.ephemeral_container_statuses
        return statuses and statuses[0].state.terminated is not None

    pod = await world.until("web", has_ended)
    assert pod.status.ephemeral_container_statuses[0].state.terminated.reason == "Completed"
    assert is_running(pod)
    pod = await world.until("web", lambda pod: pod.status.observed_generation == pod.metadata.generation)
    assert pod.status.ephemeral_container_statuses[0].restart_count == 0
    await world.until_event("web", "Started", "Container started", container="debug")


async def test_an_ephemeral_container_shares_the_processes_of_its_target(world):
    await world.start_kubelet()
    await world.create("web", shareProcessNamespace=True)
    pod = await world.until("web", is_running)
    assert world.runtime.sandbox_specs[-1].share_processes
    change = {"name": "debug", "image": "app:1", "targetContainerName": "app"}
    spec = {"ephemeralContainers": [change]}
    await world.admin.patch(PODS, "web", "default", {"spec": spec}, "strategic", "ephemeralcontainers")
    await world.until("web", lambda pod: any(one.state.running for one in pod.status.ephemeral_container_statuses))
    target = pod.status.container_statuses[0].container_id.removeprefix("bridgehead://")
    assert world.runtime.specs[-1].target == target


def sized(cpu, memory="64Mi"):
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": cpu, "memory": memory}}


async def test_the_resources_of_a_whole_pod_are_resized(world):
    """Containers without limits of their own follow; one whose policy wants a restart for them restarts."""
    await world.start_kubelet()
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    own = {"name": "own", "image": "app:1", "resources": sized("50m", "16Mi")}
    containers = [{"name": "app", "image": "app:1", "resizePolicy": policy}, own]
    await world.create("web", containers=containers, resources=sized("100m", "64Mi"))
    before = await world.until("web", lambda pod: pod.is_ready)
    assert (before.status.resources.limits, before.status.allocated_resources) == (
        sized("100m", "64Mi")["limits"], sized("100m", "64Mi")["requests"],
    )  # fmt: skip

    async def resize(resources):
        return await world.admin.patch(PODS, "web", "default", {"spec": {"resources": resources}}, "merge", "resize")

    def limits(name):
        return next(spec.limits for spec in reversed(world.runtime.specs) if spec.name == name)

    await resize(sized("200m", "64Mi"))
    after = await world.until("web", lambda pod: pod.status.resources.requests["cpu"] == "200m")
    assert [one.restart_count for one in after.status.container_statuses] == [0, 0]
    assert (world.runtime.sandbox_specs[-1].limits.cpu_millis, limits("app").cpu_millis) == (200, 200)
    assert limits("own").cpu_millis == 50
    await resize(sized("200m", "128Mi"))
    await world.until("web", lambda pod: pod.status.resources.limits["memory"] == "128Mi" and pod.is_ready)
    after = await world.until("web", lambda pod: pod.status.container_statuses[0].restart_count == 1)
    assert after.status.container_statuses[1].restart_count == 0
    assert (world.runtime.sandbox_specs[-1].limits.memory, limits("app").memory) == (128 << 20, 128 << 20)


async def test_a_running_pod_is_resized(world):
    await world.start_kubelet()
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    mount = {"name": "info", "mountPath": "/info"}
    app = container(resources=sized("100m"), resizePolicy=policy, volumeMounts=[mount])
    item = {"path": "cpu", "resourceFieldRef": {"containerName": "app", "resource": "limits.cpu", "divisor": "1m"}}
    await world.create("web", containers=[app], volumes=[{"name": "info", "downwardAPI": {"items": [item]}}])
    before = await world.until("web", lambda pod: pod.is_ready)

    def requested(pod):
        (status,) = pod.status.container_statuses
        return status.resources.requests, status.allocated_resources

    assert requested(before) == (app["resources"]["requests"], app["resources"]["requests"])

    async def resize(resources):
        change = {"spec": {"containers": [{"name": "app", "resources": resources}]}}
        return await world.admin.patch(PODS, "web", "default", change, "strategic", "resize")

    def condition(pod, name):
        return next((c for c in pod.status.conditions if c.type == name), None)

    await resize(sized("200m"))
    after = await world.until("web", lambda pod: requested(pod)[0]["cpu"] == "200m")
    assert after.status.container_statuses[0].restart_count == 0
    assert (world.runtime.specs[-1].limits.cpu_millis, after.status.observed_generation) == (200, 2)
    await world.until_event("web", "ResizeCompleted")
    assert world.runtime.sandbox_specs[-1].limits.cpu_millis == 200
    shown = world.root / mounted(world.runtime.specs[-1], "/info").source / "cpu"
    await world.wait_for(lambda: shown.read_text() == "200")

    await resize(sized("1000"))
    waiting = await world.until("web", lambda pod: condition(pod, "PodResizePending") is not None)
    assert condition(waiting, "PodResizePending").reason == "Infeasible"
    assert requested(waiting)[1]["cpu"] == "200m"
    await world.until_event("web", "ResizeInfeasible")

    await resize(sized("300m", "128Mi"))
    done = await world.until("web", lambda pod: requested(pod)[0]["memory"] == "128Mi" and pod.is_ready)
    assert done.status.container_statuses[0].restart_count == 1
    assert world.runtime.specs[-1].limits.memory == 128 << 20
    await world.until("web", lambda pod: condition(pod, "PodResizePending") is None)

    # A kubelet that restarts knows what the containers have.
    world.runtime.memory_used = 256 << 20
    await world.admin.patch(
        PODS, "web", "default", {"spec": {"containers": [{"name": "app", "resizePolicy": None}]}}, "strategic", "resize"
    )
    await world.stop_kubelet()
    await resize(sized("300m", "96Mi"))
    await world.start_kubelet()
    stuck = await world.until("web", lambda pod: condition(pod, "PodResizeInProgress") is not None)
    assert condition(stuck, "PodResizeInProgress").reason == "Error"
    assert (requested(stuck)[0]["memory"], requested(stuck)[1]["memory"]) == ("128Mi", "96Mi")
    world.runtime.memory_used = 0
    await world.until("web", lambda pod: requested(pod)[0]["memory"] == "96Mi")
    await world.until("web", lambda pod: condition(pod, "PodResizeInProgress") is None)
    await world.wait_for(lambda: world.runtime.sandbox_specs[-1].limits.memory == 96 << 20)


async def test_of_two_pods_that_grow_one_gets_what_is_left(world):
    await world.start_kubelet()
    await world.until_event("node1", "NodeReady")
    cpu = float((await world.admin.get(NODES, "node1")).status.allocatable["cpu"])
    small, large = (f"{int(share * cpu * 1000)}m" for share in (0.3, 0.6))
    names = ("first", "second")
    for name in names:
        await world.create(name, containers=[container(resources={"requests": {"cpu": small}})])
        await world.until(name, lambda pod: pod.is_ready)
    await world.stop_kubelet()
    for name in names:
        change = {"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": large}}}]}}
        await world.admin.patch(PODS, name, "default", change, "strategic", "resize")
    await world.start_kubelet()

    def reasons(pod):
        return [c.reason for c in pod.status.conditions if c.type == "PodResizePending"]

    def is_decided(pod):
        return pod.status.container_statuses[0].allocated_resources["cpu"] == large or reasons(pod)

    pods = [await world.until(name, is_decided) for name in names]
    assert sorted(map(reasons, pods)) == [[], ["Deferred"]]


async def test_room_for_a_resize_goes_to_the_pod_of_higher_priority_first(world, monkeypatch):
    monkeypatch.setattr(pod_resize, "_RETRY_SECONDS", 0.1)
    await world.start_kubelet()
    await world.until_event("node1", "NodeReady")
    cpu = float((await world.admin.get(NODES, "node1")).status.allocatable["cpu"])

    def sized(share):
        return {"requests": {"cpu": f"{int(share * cpu * 1000)}m"}}

    priority = {"metadata": {"name": "urgent"}, "value": 100}
    await world.admin.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", json=priority)
    await world.create("large", containers=[container(resources=sized(0.5))])
    for name, more in (("early", {}), ("urgent", {"priorityClassName": "urgent"})):
        await world.create(name, containers=[container(resources=sized(0.1))], **more)
        await world.until(name, lambda pod: pod.is_ready)
        change = {"spec": {"containers": [{"name": "app", "resources": sized(0.6)}]}}
        await world.admin.patch(PODS, name, "default", change, "strategic", "resize")
        await world.until(name, waits_for_room)
    await world.admin.delete(PODS, "large", "default", grace_period_seconds=0)
    await world.until("urgent", lambda pod: not waits_for_room(pod))
    assert waits_for_room(await world.admin.get(PODS, "early", "default"))


def waits_for_room(pod):
    return any(c.type == "PodResizePending" and c.reason == "Deferred" for c in pod.status.conditions)


def with_rule(action, code):
    codes = {"operator": "In", "values": [code]}
    return {"restartPolicy": "Never", "restartPolicyRules": [{"action": action, "exitCodes": codes}]}


async def test_a_rule_for_its_exit_code_restarts_a_container(world):
    await world.start_kubelet()
    others = [{"name": "other", "image": "app:1"}]
    ruled = container(**with_rule("Restart", 3))
    await world.create("web", containers=[ruled, *others], restartPolicy="Never")
    await world.until("web", lambda pod: pod.is_ready)

    async def exit_with(code):
        [run] = [one for one in await world.runtime.list_containers() if one.name == "app" and one.state == "running"]
        world.runtime.finish(run.id, code)

    await exit_with(3)
    again = await world.until("web", lambda pod: pod.is_ready and counts(pod)["app"] == 1)
    assert counts(again) == {"app": 1, "other": 0}
    await exit_with(4)
    ended = await world.until("web", lambda pod: state_of(pod, "app").terminated is not None)
    assert (state_of(ended, "app").terminated.exit_code, ended.status.phase) == (4, "Running")


async def test_a_rule_for_its_exit_code_restarts_all_containers(world):
    await world.start_kubelet()
    ruled = container(**with_rule("RestartAllContainers", 3))
    init = [{"name": "setup", "image": "job:1"}]
    others = [{"name": "slow", "image": "stubborn:1"}, {"name": "other", "image": "app:1"}]
    await world.create("web", containers=[ruled, *others], initContainers=init, restartPolicy="Never")
    first = await world.until("web", lambda pod: pod.is_ready)
    [run] = [one for one in await world.runtime.list_containers() if one.name == "app"]
    world.runtime.finish(run.id, 3)
    again = await world.until("web", lambda pod: pod.is_ready and counts(pod)["other"] == 1)
    assert counts(again) == {"app": 1, "slow": 1, "other": 1}
    assert again.status.init_container_statuses[0].restart_count == 1
    assert again.status.pod_ip == first.status.pod_ip
    # All other containers are stopped at once, not one after the other.
    assert sorted(world.runtime.signals[:2]) == [("other", signal.SIGTERM), ("slow", signal.SIGTERM)]
    assert world.runtime.signals[2:] == [("slow", signal.SIGKILL)]
    # All containers that were to be restarted have ended, so the restart is over.
    [restarting] = [one for one in again.status.conditions if one.type == "AllContainersRestarting"]
    assert restarting.status == "False"
    for status in again.status.container_statuses:
        last = status.last_state.terminated
        assert (last.reason, last.exit_code) == ("RestartingAllContainers", 137)


def counts(pod):
    return {status.name: status.restart_count for status in pod.status.container_statuses}


def state_of(pod, name):
    return next(status.state for status in pod.status.container_statuses if status.name == name)


async def test_the_node_is_registered_and_ready(world):
    await world.start_kubelet()
    await world.until_event("node1", "NodeReady")
    node = await world.admin.get(NODES, "node1")
    assert node.is_ready
    assert node.spec.pod_cidr == "10.244.1.0/24"
    assert node.internal_ips == ("127.0.0.1",)
    assert node.metadata.labels["kubernetes.io/hostname"] == "node1"
    csi_node = await world.admin.get(CSI_NODES, "node1")
    assert [owner.uid for owner in csi_node.metadata.owner_references] == [node.metadata.uid]


async def until_node(world, condition):
    """The Node, once it is as `condition` wants it."""
    async with asyncio.timeout(DEADLINE):
        while True:
            with contextlib.suppress(NotFound):
                node = await world.admin.get(NODES, "node1")
                if condition(node):
                    return node
            await asyncio.sleep(0.02)


async def test_the_nodes_status_is_restored_after_other_clients_changed_it(world):
    """Labels and conditions of other clients are kept."""
    await world.start_kubelet()
    await until_node(world, lambda node: node.is_ready)
    unknown = [
        {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"},
        {"type": "NetworkUnavailable", "status": "True"},
    ]
    await world.admin.patch(NODES, "node1", "", {"status": {"conditions": unknown}}, "strategic", "status")
    node = await until_node(world, lambda node: node.is_ready)
    conditions = {c.type: (c.status, c.reason) for c in node.status.conditions}
    assert conditions["Ready"] == ("True", "KubeletReady")
    assert conditions["NetworkUnavailable"] == ("True", "")


async def test_a_deleted_node_registers_again_and_its_pods_keep_running(world):
    await world.start_kubelet()
    await world.create("web")
    before = await world.until("web", is_running)
    node = await until_node(world, lambda node: node.is_ready)
    await world.admin.delete(NODES, "node1")
    again = await until_node(world, lambda node: node.is_ready)
    assert again.metadata.uid != node.metadata.uid
    assert again.spec.pod_cidrs == node.spec.pod_cidrs
    assert again.metadata.labels == node.metadata.labels

    async with asyncio.timeout(DEADLINE):
        while True:
            lease = await world.admin.get(LEASES, "node1", "kube-node-lease")
            if [owner.uid for owner in lease.metadata.owner_references] == [again.metadata.uid]:
                break  # else it would go with the Node that is gone
            await asyncio.sleep(0.02)
    csi_node = await world.admin.get(CSI_NODES, "node1")
    assert [owner.uid for owner in csi_node.metadata.owner_references] == [again.metadata.uid]
    after = await world.pod("web")
    assert is_running(after)
    assert after.status.container_statuses[0].container_id == before.status.container_statuses[0].container_id


async def test_many_pods_have_distinct_addresses(world):
    await world.start_kubelet()
    names = [f"web-{n}" for n in range(20)]
    for name in names:
        await world.create(name)
    pods = [await world.until(name, is_running) for name in names]
    assert len({pod.status.pod_ip for pod in pods}) == 20


async def test_the_events_of_a_back_off_are_recorded_again_and_counted(world, monkeypatch):
    monkeypatch.setattr("bridgehead.kubelet.containers.driver._RECORD_SECONDS", 0.2)
    await world.start_kubelet()
    await world.create("loop", containers=[container("crash:1")])
    await world.create("image", containers=[container("nowhere:9")])

    async def are_counted() -> bool:
        events = [*await world.events("loop"), *await world.events("image")]
        return [event.count >= 4 for event in events if event.reason == "BackOff"] == [True, True]

    await until(are_counted)
    loop = await world.admin.get(PODS, "loop", "default")
    assert loop.status.container_statuses[0].restart_count == 1  # one back-off, recorded several times


async def test_a_job_succeeds_and_a_failing_container_crash_loops(world):
    await world.start_kubelet()
    await world.create("loop", containers=[container("crash:1")])
    loop = await world.until("loop", waits_for("CrashLoopBackOff"))
    # Each run has new volumes of its image.
    [directory] = world.root.glob(f"pods/{loop.metadata.uid}/containers/app")
    assert [path.name for path in directory.iterdir()] == ["1"]
    await world.create("job", containers=[container("job:1")], restartPolicy="Never")
    await world.create("bad", containers=[container("crash:1")], restartPolicy="Never")
    done = await world.until("job", lambda pod: pod.status.phase == "Succeeded")
    assert done.status.container_statuses[0].state.terminated.reason == "Completed"
    bad = await world.until("bad", lambda pod: pod.status.phase == "Failed")
    assert bad.status.container_statuses[0].state.terminated.exit_code == 3
    status = loop.status.container_statuses[0]
    assert loop.status.phase == "Running"
    assert status.restart_count == 1
    assert status.last_state.terminated.exit_code == 3
    assert status.state.waiting.message.startswith("back-off 10s restarting failed container=app pod=loop_default(")
    await world.until_event("loop", "BackOff", "Back-off restarting failed container app in pod loop_default(")
    patch = {"spec": {"containers": [{"name": "app", "image": "app:1"}]}}
    await world.admin.patch(PODS, "loop", "default", patch, type="strategic")
    await world.until("loop", is_running)
    await world.admin.delete(PODS, "job", "default")
    await world.until_gone("job")
    # A container that ends for another image starts again, whatever the restart policy, and the exit code.
    await world.create("once", restartPolicy="Never")
    await world.until("once", is_running)
    patch = {"spec": {"containers": [{"name": "app", "image": "job:1"}]}}
    await world.admin.patch(PODS, "once", "default", patch, type="strategic")
    once = await world.until("once", lambda pod: pod.status.phase == "Succeeded")
    assert once.status.container_statuses[0].restart_count == 1


async def test_init_containers_run_in_sequence(world):
    await world.start_kubelet()
    init = [{"name": "one", "image": "job:1"}, {"name": "two", "image": "app:1"}]
    await world.create("web", initContainers=init)
    await world.wait_for(lambda: len(world.runtime.specs) == 2)
    pod = await world.until(
        "web",
        lambda pod: pod.status.init_container_statuses[1:2] and pod.status.init_container_statuses[1].state.running,
    )
    assert pod.status.container_statuses[0].state.waiting.reason == "PodInitializing"
    two = next(c for c in world.runtime.containers.values() if c.name == "two")
    world.runtime.finish(two.id, 0)
    await world.until("web", is_running)
    assert [spec.name for spec in world.runtime.specs] == ["one", "two", "app"]


@pytest.mark.slow
async def test_an_unknown_image_leaves_the_pod_in_err_image_pull(world):
    await world.start_kubelet()
    await world.create("web", containers=[container("nowhere:9")])
    await world.until("web", waits_for("ErrImagePull"))
    await world.until_event("web", "Failed", 'Failed to pull image "nowhere:9": not on this node: load it with')
    pod = await world.until("web", waits_for("ImagePullBackOff"))
    assert pod.status.phase == "Pending"
    await world.until_event("web", "BackOff", 'Back-off pulling image "nowhere:9"')


async def test_a_program_that_cannot_be_started_is_reported(world):
    await world.start_kubelet()
    await world.create("web", containers=[container("broken:1")], restartPolicy="Never")
    pod = await world.until("web", lambda pod: pod.status.phase == "Failed")
    terminated = pod.status.container_statuses[0].state.terminated
    assert (terminated.reason, terminated.exit_code) == ("StartError", 128)
    assert re.fullmatch("bridgehead://[0-9a-f]{64}", terminated.container_id)
    assert pod.status.container_statuses[0].container_id == terminated.container_id
    assert "executable file not found" in terminated.message
    await world.create("again", containers=[container("broken:1")])
    pod = await world.until("again", waits_for("RunContainerError"))
    waiting = pod.status.container_statuses[0].state.waiting
    assert (waiting.message, pod.status.phase) == (terminated.message, "Running")
    pod = await world.until("again", waits_for("CrashLoopBackOff"))
    status = pod.status.container_statuses[0]
    assert status.last_state.terminated.reason == "StartError"
    assert status.last_state.terminated.container_id == status.container_id != ""


async def test_an_environment_that_no_program_can_have_is_a_failed_start(world):
    await world.start_kubelet()
    env = [{"name": "E0", "value": "x"}, *({"name": f"E{n}", "value": f"$(E{n - 1})" * 2} for n in range(1, 40))]
    await world.create("web", containers=[container("app:1", env=env)], restartPolicy="Never")
    pod = await world.until("web", lambda pod: pod.status.phase == "Failed")
    terminated = pod.status.container_statuses[0].state.terminated
    assert (terminated.reason, terminated.exit_code) == ("StartError", 128)
    assert terminated.message == 'argument list too long: environment variable "E17" has more than 131072 bytes'
    await world.until_event("web", "Failed", f"Error: {terminated.message}")


async def test_a_container_that_cannot_be_created_is_no_failed_run(world):
    await world.start_kubelet()
    world.runtime.images["userless:1"] = Behaviour(refused=ContainerRefused("unable to find user app"))
    await world.create("lost", containers=[container("userless:1")], restartPolicy="Never")
    await world.until("lost", waits_for("CreateContainerError"))
    await world.until_event("lost", "Failed", "Error: unable to find user app")
    world.runtime.images["removed:1"] = Behaviour(refused=ImageUnavailable("the image removed:1 was removed"))
    await world.create("web", containers=[container("removed:1")], restartPolicy="Never")
    await world.until("web", waits_for("CreateContainerError"))
    await world.until_event("web", "Failed", "Error: the image removed:1 was removed")
    world.runtime.images["removed:1"] = Behaviour()
    await world.until("web", is_running)


async def test_logs_of_the_current_and_the_previous_run_are_kept(world):
    kubelet = await world.start_kubelet()
    world.runtime.images["flaky:1"] = Behaviour()
    await world.create("web", containers=[container("flaky:1")])
    pod = await world.until("web", is_running)
    directory = kubelet.settings.log_path(pod, "app", 0).parent
    world.runtime.images["flaky:1"] = Behaviour(exits_with=1)
    for name in ("0.log", "0.log.20261121-040000.000000001", "1.log"):
        (directory / name).write_text("")
    kubelet.worker("default", "web").containers._crashes = KeyedBackoff(initial=0.01, maximum=0.01)
    [info] = world.runtime.containers.values()
    world.runtime.finish(info.id, 1)
    await world.until("web", lambda pod: pod.status.container_statuses[0].restart_count >= 2)
    await world.wait_for(lambda: not list(directory.glob("0.log*")))


async def test_the_environment_has_values_of_services_and_config_maps(world):
    await world.start_kubelet()
    await world.admin.create(
        SERVICES,
        {"metadata": {"name": "web", "namespace": "default"}, "spec": {"ports": [{"name": "http", "port": 80}]}},
    )
    from_config = {"name": "COLOR", "valueFrom": {"configMapKeyRef": {"name": "cfg", "key": "color"}}}
    own_ip = {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    args = ["--at=$(IP)", "$(WEB_SERVICE_HOST)"]
    await world.create("web", containers=[container(env=[from_config, own_ip], args=args)])
    await world.until("web", waits_for("CreateContainerConfigError"))
    await world.until_event("web", "Failed", 'Error: configmap "cfg" not found')
    config = {"metadata": {"name": "cfg", "namespace": "default"}, "data": {"color": "red"}}
    await world.admin.create(CONFIG_MAPS, config)
    await world.until("web", is_running)
    [spec] = world.runtime.specs
    service = await world.admin.get(SERVICES, "web", "default")
    assert spec.env["COLOR"] == "red"
    assert spec.env["KUBERNETES_SERVICE_PORT_HTTPS"] == "443"
    assert spec.env["WEB_SERVICE_HOST"] == service.spec.cluster_ip
    assert spec.args == ("--at=10.244.1.2", service.spec.cluster_ip)


def mounted(spec, target):
    return next(mount for mount in spec.mounts if mount.target == target)


async def test_a_sub_path_that_cannot_be_made_is_tried_again(world):
    await world.start_kubelet()
    data = world.root / "data"
    data.mkdir()
    (data / "sub").symlink_to("/etc")
    volumes = [{"name": "data", "hostPath": {"path": str(data)}}]
    mounts = [{"name": "data", "mountPath": "/data", "subPath": "sub/new"}]
    await world.create("web", volumes=volumes, containers=[container(volumeMounts=mounts)])
    await world.until("web", waits_for("CreateContainerConfigError"))
    why = 'Error: failed to prepare subPath for volumeMount "data" of container "app"'
    await world.until_event("web", "Failed", why)
    (data / "sub").unlink()
    await world.until("web", is_running)
    assert (data / "sub" / "new").is_dir()


async def test_volumes_follow_changes_of_their_objects(world):
    await world.start_kubelet()
    volumes = [{"name": "cfg", "configMap": {"name": "cfg"}}, {"name": "tmp", "emptyDir": {}}]
    mounts = [{"name": "cfg", "mountPath": "/cfg"}, {"name": "tmp", "mountPath": "/tmp", "subPath": "a"}]
    await world.create("web", volumes=volumes, containers=[container(volumeMounts=mounts)])
    await world.until_event(
        "web", "FailedMount", 'MountVolume.SetUp failed for volume "cfg" : configmap "cfg" not found'
    )
    await world.create("driven", volumes=[{"name": "v", "csi": {"driver": "x.example.com"}}])
    missing = "driver name x.example.com not found in the list of registered CSI drivers"
    why = f"kubernetes.io/csi: mounter.SetUpAt failed to get CSI client: {missing}"
    await world.until_event("driven", "FailedMount", f'MountVolume.SetUp failed for volume "v" : {why}')
    meta = {"metadata": {"name": "cfg", "namespace": "default"}}
    await world.admin.create(CONFIG_MAPS, {**meta, "data": {"color": "red"}})
    await world.until("web", is_running)
    [spec] = world.runtime.specs
    shown = world.root.joinpath(mounted(spec, "/cfg").source, "color")
    assert shown.read_text() == "red"
    assert mounted(spec, "/cfg").read_only
    assert mounted(spec, "/tmp").source.endswith("/kubernetes.io~empty-dir/tmp")
    assert mounted(spec, "/tmp").sub_path == "a"
    await world.admin.patch(CONFIG_MAPS, "cfg", "default", {"data": {"color": "blue"}})
    await world.wait_for(lambda: shown.read_text() == "blue")
    assert world.root.joinpath(mounted(spec, "/etc/hosts").source).read_text().endswith("10.244.1.2\tweb\n")
    token = world.root.joinpath(mounted(spec, "/var/run/secrets/kubernetes.io/serviceaccount").source, "token")
    assert token.read_text().count(".") == 2
    assert (world.root / "pods").stat().st_mode & 0o007 == 0, "other users of the machine can read it"
    await world.admin.delete(PODS, "web", "default")
    await world.until_gone("web")
    assert not shown.exists()


async def test_an_event_for_each_volume_that_cannot_be_mounted(world):
    await world.start_kubelet()
    common = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    claim = {**common, "resources": {"requests": {"storage": "1Mi"}}, "volumeName": "disk"}
    meta = {"name": "data", "namespace": "default"}
    made = await world.admin.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": meta, "spec": claim})
    await world.admin.patch(
        PERSISTENT_VOLUME_CLAIMS, "data", "default", {"status": {"phase": "Bound"}}, subresource="status"
    )
    volume = {
        **common,
        "capacity": {"storage": "1Mi"},
        "claimRef": {**meta, "uid": made.metadata.uid},
        "hostPath": {"path": "/nowhere", "type": "Directory"},
    }
    await world.admin.create(PERSISTENT_VOLUMES, {"metadata": {"name": "disk"}, "spec": volume})
    secret = {"name": "keys", "secret": {"secretName": "none"}}
    await world.create("web", volumes=[secret, {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    await world.until_event(
        "web", "FailedMount", 'MountVolume.SetUp failed for volume "keys" : secret "none" not found'
    )
    why = 'MountVolume.SetUp failed for volume "disk" : hostPath type check failed: /nowhere is not a directory'
    await world.until_event("web", "FailedMount", why)


async def test_the_image_of_a_volume_is_there_before_the_container_starts(world):
    await world.start_kubelet()
    mounts = [{"name": "files", "mountPath": "/files", "subPath": "docs"}]
    for name, image in (("web", "app:2"), ("lost", "none:1")):
        volumes = [{"name": "files", "image": {"reference": image, "pullPolicy": "IfNotPresent"}}]
        await world.create(name, containers=[container(volumeMounts=mounts)], volumes=volumes)
    await world.until("web", is_running)
    mount = mounted(world.runtime.specs[0], "/files")
    assert (mount.image, mount.sub_path, mount.read_only, mount.source) == ("app:2", "docs", True, "")
    await world.until_event("web", "Pulled", 'Container image "app:2" already present on machine')
    await world.until("lost", waits_for("ErrImagePull"))
    await world.until_event("lost", "Failed", 'Failed to pull image "none:1"')
    await world.until_event("lost", "BackOff", 'Back-off pulling image "none:1"')


async def test_volumes_follow_the_labels_and_annotations_of_the_pod(world):
    await world.start_kubelet()
    items = [{"path": name, "fieldRef": {"fieldPath": f"metadata.{name}"}} for name in ("labels", "annotations")]
    volumes = [
        {"name": "direct", "downwardAPI": {"items": items}},
        {"name": "projected", "projected": {"sources": [{"downwardAPI": {"items": items}}]}},
    ]
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in ("direct", "projected")]
    await world.create("web", volumes=volumes, containers=[container(volumeMounts=mounts)])
    await world.until("web", is_running)
    [spec] = world.runtime.specs
    directories = [world.root / mounted(spec, f"/{name}").source for name in ("direct", "projected")]
    await world.admin.patch(PODS, "web", "default", {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}})
    for shown in directories:
        await world.wait_for(lambda shown=shown: 'a="b"' in (shown / "labels").read_text())
        await world.wait_for(lambda shown=shown: 'c="d"' in (shown / "annotations").read_text())


async def test_a_failing_readiness_probe_unreadies_and_a_failing_liveness_probe_restarts(world):
    await world.start_kubelet()
    probe = {"exec": {"command": ["check"]}, "periodSeconds": 1, "failureThreshold": 1}
    await world.create("unready", containers=[container("sick:1", readinessProbe=probe)])
    await world.create("dying", containers=[container("sick:1", livenessProbe=probe)])
    await world.create("dead", containers=[container("sick:1", livenessProbe=probe)], restartPolicy="Never")
    await world.until_event("unready", "Unhealthy", "Readiness probe failed: I am sick")
    pod = await world.until("unready", lambda pod: pod.status.phase == "Running")
    assert not pod.is_ready
    await world.until_event("dying", "Killing", "Container app failed liveness probe, will be restarted")
    await world.until("dying", lambda pod: pod.status.container_statuses[0].restart_count > 0)
    dead = await world.until("dead", lambda pod: pod.status.phase == "Failed")
    assert dead.status.container_statuses[0].restart_count == 0
    event = await world.until_event("dead", "Killing", "Container app failed liveness probe")
    assert event.message == "Container app failed liveness probe"


@pytest.mark.slow
async def test_a_tcp_probe_detects_a_listener(world):
    await world.start_kubelet()
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        probe = {"tcpSocket": {"host": "127.0.0.1", "port": port}, "periodSeconds": 1}
        await world.create("web", containers=[container(readinessProbe=probe)])
        await world.until("web", is_running)
    event = await world.until_event("web", "Unhealthy", "connect: connection refused")
    assert event.message == f"Readiness probe failed: dial tcp 127.0.0.1:{port}: connect: connection refused"


async def test_the_pre_stop_hook_runs_before_the_signal(world):
    ran = []

    def note(spec, argv):
        ran.append((argv, list(world.runtime.signals)))
        return ExecResult(exit_code=0, output=b"")

    world.runtime.images["polite:1"] = Behaviour(exec=note)
    await world.start_kubelet()
    hook = {"preStop": {"exec": {"command": ["drain"]}}}
    await world.create("web", containers=[container("polite:1", lifecycle=hook)])
    await world.until("web", is_running)
    await world.admin.delete(PODS, "web", "default")
    await world.until_gone("web")
    assert ran == [(("drain",), [])]
    assert world.runtime.signals == [("app", signal.SIGTERM)]


async def test_a_pod_that_the_node_has_no_room_for_is_rejected(world):
    await world.start_kubelet()

    def asking(cpu):
        return [container(resources={"requests": {"cpu": cpu}})]

    await world.create("small", containers=asking("100m"))
    await world.until("small", is_running)
    await world.create("large", containers=asking("10000"))
    rejected = await world.until("large", lambda pod: pod.status.phase == "Failed")
    assert rejected.status.reason == "OutOfcpu"
    assert rejected.status.message.startswith(
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 10000000, used: 100, capacity: "
    )
    assert rejected.status.container_statuses == ()
    await world.until_event("large", "OutOfcpu", "Node didn't have enough resource: cpu, requested: 10000000")


async def test_a_pod_that_the_nodes_labels_or_taints_do_not_allow_is_rejected(world):
    await world.start_kubelet()
    await world.until_event("node1", "NodeReady")
    taint = {"key": "maintenance", "effect": "NoExecute"}
    changes = {"metadata": {"labels": {"disk": "ssd"}}, "spec": {"taints": [taint]}}
    await world.admin.patch(NODES, "node1", "", changes)
    # The kubelet need not have seen the label and the taint.
    await world.create("fits", nodeSelector={"disk": "ssd"}, tolerations=[{"operator": "Exists"}])
    await world.create("elsewhere", nodeSelector={"disk": "hdd"}, tolerations=[{"operator": "Exists"}])
    await world.until("fits", is_running)
    rejected = await world.until("elsewhere", lambda pod: pod.status.phase == "Failed")
    message = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
    assert (rejected.status.reason, rejected.status.message) == ("NodeAffinity", f"Pod was rejected: {message}")
    await world.until_event("elsewhere", "NodeAffinity", message)


async def test_other_pods_end_for_a_critical_one(world):
    kubelet = await world.start_kubelet()
    await world.until_event("node1", "NodeReady")
    cpu = float((await world.admin.get(NODES, "node1")).status.allocatable["cpu"])

    def asking(share, **more):
        containers = [container(resources={"requests": {"cpu": f"{int(share * cpu * 1000)}m"}})]
        return {"containers": containers, **more}

    await world.create("small", **asking(0.3))
    await world.create("large", **asking(0.6))
    for name in ("small", "large"):
        await world.until(name, is_running)
    await world.create("critical", **asking(0.5, priorityClassName="system-node-critical"))
    await world.until("critical", is_running)
    preempted = await world.until("large", lambda pod: pod.status.phase == "Failed")
    assert (preempted.status.reason, preempted.status.message) == (
        "Preempting",
        "Preempted in order to admit critical pod",
    )
    assert ("app", signal.SIGTERM) in world.runtime.signals
    await world.until_event("large", "Preempting", "Preempted in order to admit critical pod")
    assert (await world.pod("small")).status.phase == "Running"
    await world.create("impossible", **asking(2, priorityClassName="system-node-critical"))
    rejected = await world.until("impossible", lambda pod: pod.status.phase == "Failed")
    assert rejected.status.reason == "UnexpectedAdmissionError"
    assert "no set of running pods found to reclaim resources: [(res: cpu, q: " in rejected.status.message
    assert kubelet.worker("default", "small") is not None


async def test_events_do_not_have_the_output_of_hooks(world):
    world.runtime.images["rude:1"] = Behaviour(exec=answers(1, b"password: 12345"))
    await world.start_kubelet()
    hooks = {"postStart": {"exec": {"command": ["login"]}}}
    await world.create("begins", containers=[container("rude:1", lifecycle=hooks)])
    hooks = {"preStop": {"exec": {"command": ["logout"]}}}
    await world.create("ends", containers=[container("rude:1", lifecycle=hooks)])
    await world.until("ends", is_running)
    await world.admin.delete(PODS, "ends", "default")
    await world.until_event("begins", "FailedPostStartHook", "PostStartHook failed")
    await world.until("begins", waits_for("PostStartHookError"))
    await world.until_event("ends", "FailedPreStopHook", "PreStopHook failed")
    for event in (await world.admin.list(EVENTS, "default")).items:
        assert "12345" not in event.message


@pytest.mark.slow
async def test_a_container_that_ignores_sigterm_is_killed_after_the_grace_period(world):
    await world.start_kubelet()
    await world.create("web", containers=[container("stubborn:1")], terminationGracePeriodSeconds=1)
    await world.until("web", is_running)
    await world.admin.delete(PODS, "web", "default")
    await world.until_gone("web")
    assert world.runtime.signals == [("app", signal.SIGTERM), ("app", signal.SIGKILL)]


@pytest.mark.slow
async def test_a_shorter_grace_period_replaces_the_first(world):
    await world.start_kubelet()
    await world.create("web", containers=[container("stubborn:1")], terminationGracePeriodSeconds=3600)
    await world.until("web", is_running)
    await world.admin.delete(PODS, "web", "default")
    await world.wait_for(lambda: ("app", signal.SIGTERM) in world.runtime.signals)
    await world.admin.delete(PODS, "web", "default", grace_period_seconds=1)
    await world.until_gone("web")
    assert world.runtime.signals[-1] == ("app", signal.SIGKILL)


async def test_a_forced_delete_leaves_nothing_on_the_node(world):
    await world.start_kubelet()
    await world.create("web")
    await world.until("web", is_running)
    await world.admin.delete(PODS, "web", "default", grace_period_seconds=0)
    await world.until_gone("web")
    await world.wait_for(lambda: not world.runtime.sandboxes)
    await world.create("web")
    pod = await world.until("web", is_running)
    assert pod.status.pod_ip == "10.244.1.3"


async def test_a_pod_gets_the_port_of_one_that_was_deleted_by_force_and_still_ends(world):
    await world.start_kubelet()
    on_port = [{"name": "app", "image": "stubborn:1", "ports": [{"containerPort": 80, "hostPort": 8080}]}]
    await world.create("old", containers=on_port)
    await world.until("old", is_running)
    await world.admin.delete(PODS, "old", "default", grace_period_seconds=0)
    await world.create("new", containers=on_port)
    await world.until("new", is_running)


@pytest.mark.slow
async def test_a_restarted_kubelet_resumes_its_pods(world):
    await world.start_kubelet()
    await world.create("web")
    await world.create("gone")
    before = await world.until("web", is_running)
    await world.until("gone", is_running)
    await world.stop_kubelet()
    await world.admin.delete(PODS, "gone", "default", grace_period_seconds=0)
    assert len(list((world.root / "logs").iterdir())) == 2
    await world.start_kubelet()
    await world.wait_for(lambda: len(world.runtime.sandboxes) == 1)
    await world.wait_for(lambda: len(list((world.root / "logs").iterdir())) == 1)
    await world.wait_for(lambda: [p.name for p in (world.root / "pods").iterdir()] == [before.metadata.uid])
    await world.create("new")
    new = await world.until("new", is_running)
    after = await world.pod("web")
    assert after.status == before.status
    assert new.status.pod_ip not in (before.status.pod_ip, "")
    assert len(world.runtime.specs) == 3


async def test_a_restarted_kubelet_does_not_start_a_completed_pod_again(world):
    await world.start_kubelet()
    await world.create("web", automountServiceAccountToken=False)  # no volume to wait for
    await world.until("web", is_running)
    await world.stop_kubelet()
    [info] = world.runtime.containers.values()
    world.runtime.finish(info.id, 7)
    await world.admin.delete(PODS, "web", "default", grace_period_seconds=30)
    await world.start_kubelet()
    await world.until_gone("web")
    assert [spec.attempt for spec in world.runtime.specs] == [0]


async def test_a_worker_resumes_in_its_state_after_an_unexpected_error(world, monkeypatch):
    """A pod that has terminated is not terminated a second time."""
    remove, errors = world.runtime.remove_sandbox, [RuntimeError("unexpected")]

    async def remove_or_fail(uid):
        if errors:
            raise errors.pop()
        await remove(uid)

    monkeypatch.setattr(world.runtime, "remove_sandbox", remove_or_fail)
    monkeypatch.setattr("bridgehead.kubelet.kubelet._WORKER_RESTART_SECONDS", 0.0)
    await world.start_kubelet()
    await world.create("late", activeDeadlineSeconds=1)
    await world.until("late", lambda pod: pod.status.reason == "DeadlineExceeded")
    await world.wait_for(lambda: world.runtime.sandboxes == {})
    assert errors == []
    assert world.runtime.signals == [("app", signal.SIGTERM)]
    await world.until_event("late", "DeadlineExceeded")
    [event] = [event for event in await world.events("late") if event.reason == "DeadlineExceeded"]
    assert event.count <= 1
    await world.admin.delete(PODS, "late", "default")
    await world.until_gone("late")


async def test_a_sandbox_created_during_a_listing_is_not_lost(world, monkeypatch):
    kubelet = await world.start_kubelet()
    await world.until_event("node1", "NodeReady")
    made, asked, listed = asyncio.Event(), asyncio.Event(), asyncio.Event()
    run_sandbox, list_containers = world.runtime.run_sandbox, world.runtime.list_containers

    async def run_when_allowed(spec):
        await made.wait()
        return await run_sandbox(spec)

    async def list_when_allowed():
        asked.set()
        await listed.wait()
        return await list_containers()

    monkeypatch.setattr(world.runtime, "run_sandbox", run_when_allowed)
    monkeypatch.setattr(world.runtime, "list_containers", list_when_allowed)
    await world.create("web")
    await world.wait_for(lambda: kubelet.worker("default", "web") is not None)
    telling = asyncio.create_task(kubelet._notify_workers())
    await asked.wait()
    made.set()
    await world.until("web", is_running)
    listed.set()
    await telling
    assert kubelet.worker("default", "web").sandbox is not None
    assert kubelet.worker("default", "web").containers.running() == ["app"]


async def test_a_volume_that_cannot_be_refreshed_does_not_prevent_a_restart(world):
    await world.admin.create(
        CONFIG_MAPS, {"metadata": {"name": "settings", "namespace": "default"}, "data": {"a": "1"}}
    )
    await world.start_kubelet()
    await world.create("web", volumes=[{"name": "settings", "configMap": {"name": "settings"}}])
    await world.until("web", is_running)
    await world.admin.delete(CONFIG_MAPS, "settings", "default")
    await world.until_event("web", "FailedMount")
    [info] = world.runtime.containers.values()
    world.runtime.finish(info.id, 7)
    await world.until("web", lambda pod: is_running(pod) and pod.status.container_statuses[0].restart_count == 1)


async def test_a_container_that_exited_while_no_kubelet_ran_is_restarted(world):
    await world.start_kubelet()
    await world.create("web")
    await world.until("web", is_running)
    await world.stop_kubelet()
    [info] = world.runtime.containers.values()
    world.runtime.finish(info.id, 7)
    await world.start_kubelet()
    pod = await world.until("web", lambda pod: is_running(pod) and pod.status.container_statuses[0].restart_count == 1)
    assert pod.status.container_statuses[0].last_state.terminated.exit_code == 7


async def test_a_lost_sandbox_is_recreated(world):
    await world.start_kubelet()
    await world.create("first")
    await world.until("first", is_running)
    await world.create("web")
    pod = await world.until("web", is_running)
    assert pod.status.pod_ip == "10.244.1.3"
    await world.admin.delete(PODS, "first", "default")
    await world.until_gone("first")
    await world.stop_kubelet()
    world.runtime.lose(pod.metadata.uid)
    await world.start_kubelet()
    pod = await world.until("web", lambda pod: is_running(pod) and pod.status.container_statuses[0].restart_count == 1)
    assert [address.ip for address in pod.status.pod_ips] == [pod.status.pod_ip] == ["10.244.1.4"]
    await world.until_event("web", "SandboxChanged")


async def test_a_runtime_that_ends_restarts_a_container_once(world, monkeypatch):
    """The kubelet sees the container end, and cannot start it in the sandbox that ends, too."""
    monkeypatch.setattr("bridgehead.kubelet.kubelet.RELIST_SECONDS", 0.1)
    await world.start_kubelet()
    await world.create("web")
    pod = await world.until("web", is_running)
    sandboxes = world.runtime.list_sandboxes

    async def all_are_left():
        return [sandbox]

    [sandbox] = await sandboxes()
    monkeypatch.setattr(world.runtime, "list_sandboxes", all_are_left)
    await world.runtime.remove_sandbox(pod.metadata.uid)
    await world.until("web", waits_for("CreateContainerError"))
    monkeypatch.setattr(world.runtime, "list_sandboxes", sandboxes)
    pod = await world.until("web", is_running)
    assert pod.status.container_statuses[0].restart_count == 1
    assert pod.status.container_statuses[0].last_state.terminated.exit_code == 137


async def test_a_changed_image_restarts_its_container(world):
    await world.start_kubelet()
    await world.create("web")
    await world.until("web", is_running)
    patch = {"spec": {"containers": [{"name": "app", "image": "app:2"}]}}
    await world.admin.patch(PODS, "web", "default", patch, type="strategic")
    await world.until("web", lambda pod: is_running(pod) and pod.status.container_statuses[0].restart_count == 1)
    assert world.runtime.specs[-1].image.name == "app:2"
    await world.until_event("web", "Pulled", '"app:2"')
    assert "BackOff" not in {event.reason for event in await world.events("web")}  # it has not crashed


async def test_the_fallback_message_of_a_failed_container_is_its_log(world):
    kubelet = await world.start_kubelet()
    policy = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    await world.create("web", restartPolicy="Never", containers=[container(**policy)])
    pod = await world.until("web", is_running)
    kubelet.settings.log_path(pod, "app", 0).write_text("2026-11-21T03:00:00.000000001Z stderr F no such table\n")
    [info] = world.runtime.containers.values()
    world.runtime.finish(info.id, 1)
    pod = await world.until("web", lambda pod: pod.status.phase == "Failed")
    assert pod.status.container_statuses[0].state.terminated.message == "no such table\n"


async def test_a_host_network_pod_has_the_nodes_address(world):
    await world.start_kubelet()
    await world.create("web", hostNetwork=True)
    pod = await world.until("web", is_running)
    assert pod.status.pod_ip == pod.status.host_ip == "127.0.0.1"
    assert world.runtime.specs[0].env["HOSTNAME"] == "node1"


async def test_the_runtime_learns_of_host_ports(world):
    await world.start_kubelet()
    container = {"name": "app", "image": "app:1", "ports": [{"containerPort": 80, "hostPort": 8080}]}
    await world.create("mapped", containers=[container])
    await world.create("plain")
    await world.until("mapped", is_running)
    await world.until("plain", is_running)
    assert {spec.name: spec.has_host_ports for spec in world.runtime.sandbox_specs} == {"mapped": True, "plain": False}


async def test_an_active_deadline_ends_a_pod(world):
    await world.start_kubelet()
    await world.create("web", activeDeadlineSeconds=1)
    pod = await world.until("web", lambda pod: pod.status.phase == "Failed")
    assert pod.status.reason == "DeadlineExceeded"


# --- Logs and exec by way of the API server ------------------------------------------------------------------


async def read_log(world, query=""):
    url = f"{world.admin.config.server}/api/v1/namespaces/default/pods/web/log{query}"
    async with (
        aiohttp.ClientSession(headers={"Authorization": "Bearer admin"}) as session,
        session.get(url) as response,
    ):
        return response.status, await response.text()


async def test_a_pod_over_its_storage_limit_is_evicted(world):
    await world.start_kubelet(eviction_period=0.05)
    limits = {"limits": {"ephemeral-storage": "1Mi"}}
    await world.create("web", containers=[container(resources=limits)])
    await world.create(
        "large", containers=[container("stubborn:1", resources=limits)], terminationGracePeriodSeconds=999
    )
    await world.until("web", is_running)
    await world.until("large", is_running)
    world.runtime.layers["app"] = (1 << 20) + 1
    message = "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. "
    for name in ("web", "large"):
        evicted = await world.until(name, lambda pod: pod.status.phase == "Failed")
        assert (evicted.status.reason, evicted.status.message) == ("Evicted", message)
        condition = next(one for one in evicted.status.conditions if one.type == "DisruptionTarget")
        assert (condition.status, condition.reason) == ("True", "TerminationByKubelet")
        await world.until_event(name, "Evicted", message)
    await world.wait_for(lambda: world.runtime.sandboxes == {})


async def test_logs_are_served_through_the_api_server(world):
    kubelet = await world.serve_kubelet()
    await world.create("web")
    pod = await world.until("web", is_running)
    path = kubelet.settings.log_path(pod, "app", 0)
    path.write_text("2026-11-21T03:00:00.000000001Z stdout F hello\n2026-11-21T03:00:01.000000001Z stderr F world\n")
    assert await read_log(world) == (200, "hello\nworld\n")
    assert await read_log(world, "?tailLines=1&timestamps=true") == (200, "2026-11-21T03:00:01.000000001Z world\n")
    async with exec_socket(world, "tailLines=1", "binary.k8s.io", "log") as socket:
        assert b"".join([message.data async for message in socket]) == b"world\n"
    status, text = await read_log(world, "?container=other")
    assert status == 400
    assert msgspec.json.decode(text)["message"] == "container other is not valid for pod web"
    status, text = await read_log(world, "?previous=true")
    assert status == 400
    status = msgspec.json.decode(text)
    assert status["message"] == 'previous terminated container "app" in pod "web" not found'
    assert (status["reason"], "details" in status) == ("BadRequest", False)


async def test_logs_of_an_unreachable_kubelet_give_an_error(world):
    await world.serve_kubelet()
    await world.create("web")
    await world.until("web", is_running)
    await world.stop_kubelet()
    status, text = await read_log(world)
    assert status == 500
    assert "onnect" in msgspec.json.decode(text)["message"]


async def test_exec_without_a_websocket_is_refused_with_a_reason(world):
    await world.serve_kubelet()
    await world.create("web")
    await world.until("web", is_running)
    with pytest.raises(ApiError, match="Upgrade request required"):
        await world.admin.request(
            "POST", "/api/v1/namespaces/default/pods/web/exec", params={"command": "true", "stdout": "true"}
        )


@contextlib.asynccontextmanager
async def exec_socket(world, query, protocol: str | None = "v5.channel.k8s.io", subresource="exec"):
    url = f"{world.admin.config.server}/api/v1/namespaces/default/pods/web/{subresource}?{query}"
    protocols = [protocol] if protocol else []
    async with (
        aiohttp.ClientSession(headers={"Authorization": "Bearer admin"}) as session,
        session.ws_connect(url, protocols=protocols) as socket,
    ):
        assert socket.protocol == protocol
        yield socket


async def receive_all(socket):
    """Channel -> everything that came on it, to the end."""
    channels = {}
    async for message in socket:
        channels[message.data[0]] = channels.get(message.data[0], b"") + message.data[1:]
    return channels


async def test_exec_carries_input_output_and_exit_code(world):
    await world.serve_kubelet()
    await world.create("web")
    await world.until("web", is_running)
    async with exec_socket(world, "command=cat&stdin=true&stdout=true&stderr=true") as socket:
        await socket.send_bytes(b"\x00hello ")
        await socket.send_bytes(b"\x04" + b'{"Width":111,"Height":33}')
        await socket.send_bytes(b"\x00world")
        await socket.send_bytes(b"\xff\x00")
        channels = await receive_all(socket)
    assert channels[1] == b"hello world"
    assert msgspec.json.decode(channels[3])["status"] == "Success"
    assert world.runtime.sessions[0].sizes == [(111, 33)]
    async with exec_socket(world, "command=fail&command=7&stdout=true&stderr=true", "v4.channel.k8s.io") as socket:
        channels = await receive_all(socket)
    assert channels[2] == b"failing\n"
    status = msgspec.json.decode(channels[3])
    assert status["reason"] == "NonZeroExitCode"
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "7"}]


async def test_an_exec_may_have_a_long_command(world):
    """The command is in the URL, of which Go's servers take 1 MiB."""
    await world.serve_kubelet()
    await world.create("web")
    await world.until("web", is_running)
    async with exec_socket(world, f"command=fail&command=7&command={'a' * 20_000}&stderr=true") as socket:
        channels = await receive_all(socket)
    assert channels[2] == b"failing\n"


async def test_exec_speaks_the_older_protocols(world):
    await world.serve_kubelet()
    await world.create("web")
    await world.until("web", is_running)
    failing = "command=fail&command=7&stdout=true&stderr=true"
    text = b"command terminated with non-zero exit code: exit status 7"
    for protocol in (None, "channel.k8s.io"):
        async with exec_socket(world, failing, protocol) as socket:
            assert (await socket.receive()).data == b"\x01", "the session has begun"
            assert await receive_all(socket) == {2: b"failing\n", 3: text}
    for protocol in ("base64.channel.k8s.io", "v4.base64.channel.k8s.io"):
        async with exec_socket(world, "command=cat&stdin=true&stdout=true&stderr=true", protocol) as socket:
            assert (await socket.receive()).data == "1"
            await socket.send_str("0!")  # not base64: left out
            await socket.send_str("0aGVsbG8=")
            assert (await socket.receive()).data == "1aGVsbG8="
        async with exec_socket(world, failing, protocol) as socket:
            messages = [message.data async for message in socket]
        *_, last = messages
        assert messages[:2] == ["1", "2ZmFpbGluZwo="]
        status = base64.b64decode(last[1:])
        assert last[0] == "3"
        assert (status == text) == (protocol == "base64.channel.k8s.io")
        assert text in status
    with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
        async with exec_socket(world, failing, "v9.channel.k8s.io"):
            pass
    assert caught.value.status == 400


async def test_a_command_gets_the_end_of_its_input_when_the_client_disconnects(world):
    await world.serve_kubelet()
    await world.create("web")
    await world.until("web", is_running)
    async with exec_socket(world, "command=cat&stdin=true&stdout=true") as socket:
        await socket.send_bytes(b"\x00x")
        assert (await socket.receive()).data == b"\x01x"
    [session] = world.runtime.sessions
    async with asyncio.timeout(40):
        assert await session.wait() == 0


INTERACTIVE = {"name": "app", "image": "app:1", "stdin": True}


async def test_attach_uses_the_containers_own_streams(world):
    await world.serve_kubelet()
    container = INTERACTIVE | {"stdinOnce": True, "terminationMessagePath": "/run/words"}
    await world.create("web", restartPolicy="Never", containers=[container])
    await world.until("web", is_running)
    [spec] = world.runtime.specs
    assert (spec.stdin, spec.stdin_once, spec.tty, spec.termination_message_path) == (True, True, False, "/run/words")
    async with exec_socket(world, "stdin=true&stdout=true&stderr=true", subresource="attach") as socket:
        await socket.send_bytes(b"\x00hello")
        assert (await socket.receive()).data == b"\x01hello"
        await socket.send_bytes(b"\xff\x00")  # a container whose input is opened once ends with it
        channels = await receive_all(socket)
    assert msgspec.json.decode(channels[3])["status"] == "Success"
    await world.until("web", lambda pod: pod.status.phase == "Succeeded")


async def test_a_container_survives_a_client_that_detaches(world):
    await world.serve_kubelet()
    container = INTERACTIVE | {"tty": True}
    await world.create("web", containers=[container])
    await world.until("web", is_running)
    for goodbye in (None, b"\xff\x00"):
        async with exec_socket(world, "stdin=true&stdout=true&tty=true", subresource="attach") as socket:
            await socket.send_bytes(b"\x04" + b'{"Width":111,"Height":33}')
            await socket.send_bytes(b"\x00x")
            assert (await socket.receive()).data == b"\x01x"
            if goodbye:
                await socket.send_bytes(goodbye)
                assert msgspec.json.decode((await receive_all(socket))[3])["status"] == "Success"
    [container_id] = world.runtime.containers
    [first, second] = world.runtime.attached[container_id]
    assert first.sizes == second.sizes == [(111, 33)]
    async with asyncio.timeout(40):
        await first.wait()
        await second.wait()
    assert world.runtime.containers[container_id].state == "running"


async def test_an_attached_client_gets_the_end_of_output_but_no_exit_code(world):
    await world.serve_kubelet()
    await world.create("web")
    await world.until("web", is_running)
    [container_id] = world.runtime.containers
    query = "stdin=true&stdout=true&stderr=true"  # the container has no input: what comes is dropped
    async with exec_socket(world, query, subresource="attach") as socket:
        await socket.send_bytes(b"\x00x")
        await world.wait_for(lambda: container_id in world.runtime.attached)
        world.runtime.finish(container_id, 3)
        channels = await receive_all(socket)
    assert msgspec.json.decode(channels[3])["status"] == "Success"


async def test_attach_to_a_container_that_has_ended_gives_a_status(world):
    """kubectl falls back to the log at once, and shows it once."""
    await world.serve_kubelet()
    await world.create("web", restartPolicy="Never", containers=[container("job:1")])
    await world.until("web", lambda pod: pod.status.phase == "Succeeded")
    async with exec_socket(world, "stdin=true&stdout=true", subresource="attach") as socket:
        channels = await receive_all(socket)
    status = msgspec.json.decode(channels[3])
    text = "Internal error occurred: error attaching to container: container is in CONTAINER_EXITED state"
    assert (list(channels), status["status"], status["message"]) == ([3], "Failure", text)


@pytest.mark.parametrize("subresource", ["exec", "attach"])
async def test_exec_in_a_container_that_does_not_run_is_refused(world, subresource):
    await world.serve_kubelet()
    await world.create("web", containers=[{"name": "app", "image": "nowhere:1"}])
    await world.until("web", lambda pod: bool(pod.status.container_statuses))
    path = f"/api/v1/namespaces/default/pods/web/{subresource}"
    with pytest.raises(ApiError, match='container "app" in pod "web" is not running'):
        await world.admin.request("POST", path, params={"command": "true", "stdout": "true"})


async def test_a_refused_exec_states_the_reason(world):
    await world.serve_kubelet()
    await world.create("web")
    await world.until("web", is_running)
    with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
        async with exec_socket(world, "command=cat&container=other"):
            pass
    assert caught.value.status == 400


async def forwarded(socket, port, sent=b""):
    """One connection as kubectl makes it: what came back on the data and on the error stream."""
    writer, reader = ClientWriter(), spdy.Reader()
    for stream, kind in ((1, "error"), (3, "data")):
        headers = {"streamtype": kind, "port": str(port), "requestid": "0"}
        await socket.send_bytes(writer.open_stream(stream, headers))
    await socket.send_bytes(spdy.ping_frame(1) + spdy.data_frame(1, b"", ends=True) + spdy.data_frame(3, sent))
    got = {1: b"", 3: b""}
    ended = set()
    while ended != {1, 3}:
        for frame in reader.feed_untrusted((await socket.receive()).data):
            if isinstance(frame, spdy.Data):
                got[frame.stream] += frame.content
                ended |= {frame.stream} if frame.ends else set()
    return got[3], got[1]


async def test_port_forward_reaches_a_port_of_the_pod(world):
    async def greet(reader, writer):
        writer.write(b"hello " + await reader.readexactly(5))
        writer.close()
        await writer.wait_closed()

    await world.serve_kubelet()
    await world.create("web")
    await world.until("web", is_running)
    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    protocol = "SPDY/3.1+portforward.k8s.io"
    async with server, exec_socket(world, "", protocol, "portforward") as socket:
        assert await forwarded(socket, port, b"world") == (b"hello world", b"")
    async with exec_socket(world, "", protocol, "portforward") as socket:
        data, error = await forwarded(socket, port)
    assert data == b""
    assert error.decode().startswith(f"error forwarding port {port} to pod web: dial tcp4 127.0.0.1:{port}: connect:")


async def test_port_forward_needs_no_spdy(world):
    async def greet(reader, writer):
        writer.write(b"hello " + await reader.readexactly(5))
        writer.close()
        await writer.wait_closed()

    await world.serve_kubelet()
    await world.create("web")
    await world.until("web", is_running)
    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, exec_socket(world, f"ports={port}&ports=1", "v4.channel.k8s.io", "portforward") as socket:
        await socket.send_bytes(b"\x00world")
        channels = await receive_all(socket)
    number = port.to_bytes(2, "little")
    assert {channels[0], channels[1], channels[2]} == {number + b"hello world", number, b"\x01\x00"}
    assert channels[3].startswith(b"\x01\x00error forwarding port 1 to pod web, uid ")
    for query, text in (
        ("", 'query parameter "port" is required'),
        ("ports=x", 'unable to parse "x" as a port: strconv.ParseUint: parsing "x": invalid syntax'),
        ("ports=70000", 'unable to parse "70000" as a port: strconv.ParseUint: parsing "70000": value out of range'),
        ("ports=80,0", 'port "80,0" must be > 0'),
        ("ports=", 'query parameter "port" cannot be empty'),
    ):
        with pytest.raises(aiohttp.WSServerHandshakeError):
            async with exec_socket(world, query, None, "portforward"):
                pass
        with pytest.raises(ApiError, match=re.escape(text)):
            await world.admin.request("GET", f"/api/v1/namespaces/default/pods/web/portforward?{query}")


async def test_pages_of_a_node_are_reached_through_the_api_server(world, tmp_path):
    logs = tmp_path / "var-log"
    (logs / "sub").mkdir(parents=True)
    (logs / "a&b.log").write_text("line\n" * 100_000)
    (logs / "link").symlink_to("/etc/passwd")
    await world.serve_kubelet(system_logs=logs)
    await world.create("web")
    await world.until("web", is_running)
    port = (await world.admin.get(NODES, "node1")).status.daemon_endpoints["kubeletEndpoint"]["Port"]

    async def page(path, name="node1"):
        url = f"{world.admin.config.server}/api/v1/nodes/{name}/proxy/{path}"
        async with (
            aiohttp.ClientSession(headers={"Authorization": "Bearer admin"}) as session,
            session.get(url, allow_redirects=False) as response,
        ):
            return response.status, response.headers, await response.text()

    for name in ("node1", f"node1:{port}", f"http:node1:{port}"):
        status, headers, text = await page("logs/", name)
        assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert '<a href="a%26b.log">a&amp;b.log</a>\n<a href="link">link</a>\n<a href="sub/">sub/</a>' in text
        assert (await page("healthz", name))[2] == "ok"
        status, headers, _ = await page("logs/sub", name)
        assert (status, headers["Location"]) == (301, "sub/")
    assert (await page("logs/a&b.log"))[2] == "line\n" * 100_000
    for missing in ("logs/link", "logs/none", "logs/none/", "nothing"):
        status, headers, text = await page(missing)
        assert (status, text, "Server" in headers) == (404, "404 page not found\n", False)
    for url, expected in (
        ("containerLogs/default/none/app", (404, 'pod "none" does not exist\n')),
        ("containerLogs/default/web/none", (404, 'container "none" not found in pod "web"\n')),
        ("containerLogs/default", (404, "404: Page Not Found")),
    ):
        status, _, text = await page(url)
        assert (status, text) == expected
    assert "Server" not in (await page("metrics"))[1]
    assert (await page("logs/sub/%2e%2e/%2e%2e/x"))[0] in (400, 404)
    assert "kubelet_running_pods 1.0\n" in (await page("metrics"))[2]
    (running,) = msgspec.json.decode((await page("runningpods/"))[2])["items"]
    assert running["metadata"]["name"] == "web"
    (listed,) = msgspec.json.decode((await page("pods"))[2])["items"]
    assert listed["metadata"]["uid"] == running["metadata"]["uid"]
    assert msgspec.json.decode((await page("configz"))[2])["kubeletconfig"]["port"] == port
    assert msgspec.json.decode((await page("stats/summary"))[2])["pods"][0]["podRef"]["name"] == "web"
    status, _, text = await page("healthz", f"node1:{port + 1}")
    assert (status, msgspec.json.decode(text)["message"]) == (400, "address not allowed")
    assert msgspec.json.decode((await page("healthz", "none"))[2])["message"] == 'nodes "none" not found'
