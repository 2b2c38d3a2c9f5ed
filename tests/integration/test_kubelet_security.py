"""Security contexts on their way through the kubelet: to the runtime, or to a refusal that the user sees."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from bridgehead.backoff import KeyedBackoff
from bridgehead.kubelet.runtimes.runtime import Limits, Mount, RuntimeFeatures, Seccomp, Security
from bridgehead.objects.kinds import CONFIG_MAPS, PODS, RUNTIME_CLASSES
from tests.integration.fake_runtime import Behaviour

from .kubelet_world import container, is_running, open_world, waits_for

pytestmark = pytest.mark.integration

GIB = 1 << 30


@pytest.fixture
async def world(tmp_path):
    async with open_world(tmp_path, {"app:1": Behaviour(), "job:1": Behaviour(exits_with=0)}) as world:
        yield world


async def test_the_runtime_gets_the_effective_security_context(world):
    await world.start_kubelet()
    own = {"capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]}, "readOnlyRootFilesystem": True, "runAsUser": 7}
    init = {"name": "first", "image": "job:1", "securityContext": {"allowPrivilegeEscalation": False}}
    side = {"name": "side", "image": "app:1", "restartPolicy": "Always", "securityContext": {"runAsGroup": 3}}
    resources = {"limits": {"memory": "1Gi", "cpu": "500m"}}
    await world.create(
        "web",
        hostPID=True,
        hostIPC=True,
        securityContext={
            "runAsNonRoot": True,
            "runAsUser": 5,
            "supplementalGroups": [8],
            "sysctls": [{"name": "net/ipv4/ip_local_port_range", "value": "1024 65535"}],
            "seccompProfile": {"type": "Unconfined"},
        },
        initContainers=[init, side],
        containers=[container(securityContext=own, resources=resources)],
    )
    await world.until("web", is_running)
    [sandbox] = world.runtime.sandbox_specs
    assert (sandbox.host_pid, sandbox.host_ipc) == (True, True)
    assert sandbox.sysctls == {"net.ipv4.ip_local_port_range": "1024 65535"}
    shared: dict[str, Any] = {"supplemental_groups": (8,), "seccomp": Seccomp(kind="Unconfined")}
    assert [spec.security for spec in world.runtime.specs] == [
        Security(user=5, no_new_privileges=True, **shared),
        Security(user=5, group=3, **shared),
        Security(user=7, add_capabilities=("NET_ADMIN",), drop_capabilities=("ALL",), read_only_root=True, **shared),
    ]
    limits = world.runtime.specs[-1].limits
    assert limits == Limits(memory=GIB, cpu_millis=500, cpu_request_millis=500, oom_score_adj=limits.oom_score_adj)
    assert sandbox.limits.pids == 4096
    assert 2 < limits.oom_score_adj < 1000


async def test_a_root_user_violates_run_as_non_root(world):
    await world.start_kubelet()
    await world.create("web", securityContext={"runAsNonRoot": True})
    pod = await world.until("web", waits_for("CreateContainerConfigError"))
    message = "container has runAsNonRoot and image will run as root"
    where = f'(pod: "web_default({pod.metadata.uid})", container: app)'
    assert pod.status.container_statuses[0].state.waiting.message == f"{message} {where}"
    await world.until_event("web", "Failed", f"Error: {message} {where}")
    assert world.runtime.specs == []
    world.runtime.users["app:1"] = "1000:1000"
    await world.create("other", securityContext={"runAsNonRoot": True})
    await world.until("other", is_running)
    assert world.runtime.specs[0].security.user == 1000


async def test_a_seccomp_profile_is_loaded_from_the_nodes_directory(world):
    kubelet = await world.start_kubelet()
    profile = {"type": "Localhost", "localhostProfile": "a/b.json"}
    await world.create(
        "bad", containers=[container(securityContext={"seccompProfile": profile})], restartPolicy="Never"
    )
    pod = await world.until("bad", lambda pod: pod.status.phase == "Failed")
    terminated = pod.status.container_statuses[0].state.terminated
    assert terminated.message.startswith(f'cannot load seccomp profile "{world.root}/seccomp/a/b.json"')
    path = kubelet.settings.seccomp_root / "a" / "b.json"
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    await world.create("good", securityContext={"seccompProfile": profile})
    await world.until("good", is_running)
    assert world.runtime.specs[0].security.seccomp == Seccomp(kind="Localhost", path=str(path))


async def test_the_pod_of_kubectl_debug_node_runs(world):
    """The pod is the one that kubectl 1.36 creates."""
    await world.start_kubelet()
    debugger = {"name": "debugger", "image": "app:1", "stdin": True, "tty": True}
    await world.create(
        "node-debugger-node1-x",
        containers=[debugger | {"volumeMounts": [{"name": "host-root", "mountPath": "/host"}]}],
        hostIPC=True,
        hostNetwork=True,
        hostPID=True,
        restartPolicy="Never",
        tolerations=[{"operator": "Exists"}],
        volumes=[{"name": "host-root", "hostPath": {"path": "/"}}],
    )
    await world.until("node-debugger-node1-x", is_running)
    [sandbox], [spec] = world.runtime.sandbox_specs, world.runtime.specs
    assert (sandbox.host_network, sandbox.host_pid, sandbox.host_ipc) == (True, True, True)
    assert Mount(source="/", target="/host") in spec.mounts
    assert spec.security == Security()


async def test_writes_to_etc_hosts_stay_in_the_container(world):
    kubelet = await world.start_kubelet()
    await world.create("web", containers=[container(securityContext={"readOnlyRootFilesystem": True})])
    await world.until("web", is_running)
    [spec] = world.runtime.specs
    files = {mount.target: mount for mount in spec.mounts}
    assert [files[f"/etc/{name}"].read_only for name in ("hosts", "hostname", "resolv.conf")] == [False, True, True]
    hosts = world.root.joinpath(files["/etc/hosts"].source)
    written = hosts.read_text()
    hosts.write_bytes(b"\xff" * len(written))
    kubelet.worker("default", "web").containers._crashes = KeyedBackoff(initial=0.01, maximum=0.01)
    [info] = world.runtime.containers.values()
    world.runtime.finish(info.id, 1)
    await world.until("web", lambda pod: pod.status.container_statuses[0].restart_count == 1 and is_running(pod))
    assert hosts.read_text() == written


async def test_volumes_belong_to_the_pods_fs_group(world):
    """The group is that of this process: others need privileges, and may not exist in a user namespace."""
    group = os.getgid()
    await world.start_kubelet()
    config = {"metadata": {"name": "cfg", "namespace": "default"}, "data": {"color": "red"}}
    await world.admin.create(CONFIG_MAPS, config)
    volumes = [{"name": "cfg", "configMap": {"name": "cfg", "defaultMode": 0o400}}, {"name": "tmp", "emptyDir": {}}]
    mounts = [{"name": "cfg", "mountPath": "/cfg"}, {"name": "tmp", "mountPath": "/tmp"}]
    await world.create(
        "web", securityContext={"fsGroup": group}, volumes=volumes, containers=[container(volumeMounts=mounts)]
    )
    await world.until("web", is_running)
    [spec] = world.runtime.specs
    assert spec.security.supplemental_groups == (group,)
    sources = {mount.target: Path(mount.source) for mount in spec.mounts}
    token = sources["/var/run/secrets/kubernetes.io/serviceaccount"] / "token"
    modes = {path: path.stat().st_mode & 0o7777 for path in (sources["/tmp"], sources["/cfg"] / "color", token)}
    assert list(modes.values()) == [0o2777, 0o440, 0o640]
    assert {path.stat().st_gid for path in modes} == {group}


@pytest.mark.parametrize(
    ("context", "reason", "message"),
    [
        (
            {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]},
            "SysctlForbidden",
            'forbidden sysctl: "kernel.msgmax" not allowlisted',
        ),
        (
            {"appArmorProfile": {"type": "RuntimeDefault"}},
            "AppArmor",
            "Cannot enforce AppArmor: AppArmor is not enabled on the host",
        ),
    ],
)
async def test_pods_that_the_node_cannot_run_are_rejected(world, monkeypatch, context, reason, message):
    monkeypatch.setattr("bridgehead.kubelet.kubelet.kernel_has_app_armor", lambda: False)
    await world.start_kubelet()
    await world.create("web", securityContext=context)
    pod = await world.until("web", lambda pod: pod.status.phase == "Failed")
    assert (pod.status.reason, pod.status.message) == (reason, f"Pod was rejected: {message}")
    assert pod.status.container_statuses == ()
    event = await world.until_event("web", reason)
    assert (event.type, event.message) == ("Warning", message)
    assert world.runtime.sandbox_specs == []
    await world.admin.delete(PODS, "web", "default")
    await world.until_gone("web")


async def test_a_running_pod_is_not_rejected_by_a_restarted_kubelet(world, monkeypatch):
    await world.start_kubelet()
    await world.create("web", securityContext={"sysctls": [{"name": "net.ipv4.tcp_rmem", "value": "1 2 3"}]})
    await world.until("web", is_running)
    await world.stop_kubelet()
    monkeypatch.setattr("bridgehead.kubelet.pods.unsupported_fields.SAFE_SYSCTLS", frozenset())
    await world.start_kubelet()
    await world.create("other", securityContext={"sysctls": [{"name": "net.ipv4.tcp_rmem", "value": "1 2 3"}]})
    await world.until("other", lambda pod: pod.status.phase == "Failed")
    assert is_running(await world.pod("web"))


@pytest.mark.parametrize(
    ("ranges", "volumes", "reason"),
    [
        (0, [], "UserNamespacesNotSupported"),
        (1, [{"name": "v", "hostPath": {"path": "/tmp"}}], "UserNamespacesNotSupported"),
    ],
)
async def test_a_pod_with_users_that_the_node_cannot_give_it_fails_once(world, ranges, volumes, reason):
    world.runtime.features = RuntimeFeatures(pod_id_ranges=ranges)
    await world.start_kubelet()
    await world.create("web", hostUsers=False, volumes=volumes)
    pod = await world.until("web", lambda pod: pod.status.phase == "Failed")
    assert pod.status.reason == reason
    assert pod.status.message.startswith("Pod was rejected: Cannot run the pod with hostUsers: false: the ")
    assert world.runtime.sandbox_specs == []


async def test_pods_with_users_of_their_own_have_ids_and_files_for_themselves(world):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    world.runtime.features = RuntimeFeatures(pod_id_ranges=2)
    await world.start_kubelet()
    await world.admin.create(CONFIG_MAPS, {"metadata": {"name": "cfg", "namespace": "default"}, "data": {"k": "v"}})
    volumes = [{"name": "cfg", "configMap": {"name": "cfg"}}, {"name": "tmp", "emptyDir": {}}]
    mounts = [
        {"name": "cfg", "mountPath": "/cfg"},
        {"name": "tmp", "mountPath": "/tmp"},
        {"name": "tmp", "mountPath": "/sub", "subPath": "a/b"},
    ]
    context = {"fsGroup": 2000, "runAsUser": 1000}
    made = {"containers": [container(volumeMounts=mounts)], "volumes": volumes, "securityContext": context}
    await world.create("one", hostUsers=False, **made)
    await world.until("one", is_running)
    [spec] = world.runtime.specs
    sources = {mount.target: Path(mount.source, mount.sub_path) for mount in spec.mounts}
    token = sources["/var/run/secrets/kubernetes.io/serviceaccount"] / "token"
    owners = {path: (path.stat().st_uid, path.stat().st_gid) for path in (*sources.values(), token)}
    base = 65536
    assert owners[token] == (base + 1000, base + 2000)
    assert owners[sources["/tmp"]] == owners[sources["/sub"]] == owners[sources["/cfg"]] == (base, base + 2000)
    assert owners[sources["/etc/hosts"]] == (base, base)
    assert (sources["/cfg"] / "k").stat().st_uid == base
    # The kubelet that is restarted knows the ranges, also of a pod whose sandbox is made anew.
    await world.stop_kubelet()
    await world.start_kubelet()
    await world.create("two", hostUsers=False)
    await world.create("node", hostUsers=True)
    for name in ("two", "node"):
        await world.until(name, is_running)
    assert {spec.name: spec.id_base for spec in world.runtime.sandbox_specs} == {
        "one": base,
        "two": 2 * base,
        "node": 0,
    }
    await world.create("three", hostUsers=False)
    full = await world.until("three", lambda pod: pod.status.phase == "Failed")
    assert full.status.reason == "OutOfUserNamespaces"
    await world.admin.delete(PODS, "one", "default")
    await world.until_gone("one")
    await world.create("four", hostUsers=False)
    await world.until("four", is_running)
    assert world.runtime.sandbox_specs[-1].id_base == base


async def test_a_runtime_class_names_a_handler_of_the_node(world):
    for name, handler in (("default", "runc"), ("sandboxed", "runsc")):
        await world.admin.create(RUNTIME_CLASSES, {"metadata": {"name": name}, "handler": handler})
    await world.start_kubelet()
    await world.create("plain", runtimeClassName="default")
    await world.until("plain", is_running)
    await world.create("other", runtimeClassName="sandboxed")
    message = (
        "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox runtime:"
        ' no runtime for "runsc" is configured'
    )
    await world.until_event("other", "FailedCreatePodSandBox", message)
    assert [spec.name for spec in world.runtime.sandbox_specs] == ["plain"]


async def test_unenforced_limits_are_reported_once_per_node(world):
    """The Event is for the node and does not depend on the number of pods."""
    world.runtime.features = RuntimeFeatures(limits="no cgroup v2 is delegated to the lab")
    await world.start_kubelet()
    for name in ("one", "two"):
        await world.create(name, containers=[container(resources={"limits": {"memory": "1Gi"}})])
        await world.until(name, is_running)
    event = await world.until_event("node1", "LimitsNotEnforced")
    message = "Limits of containers are not enforced on this node: no cgroup v2 is delegated to the lab"
    assert (event.type, event.message, event.count) == ("Warning", message, 1)
    found = [event.reason for name in ("one", "two", "node1") for event in await world.events(name)]
    assert found.count("LimitsNotEnforced") == 1


async def test_a_container_killed_for_memory_reports_oom_killed(world):
    await world.start_kubelet()
    await world.create("web", restartPolicy="Never")
    await world.until("web", is_running)
    [info] = world.runtime.containers.values()
    world.runtime.finish(info.id, 137, is_oom_killed=True)
    pod = await world.until("web", lambda pod: pod.status.phase == "Failed")
    terminated = pod.status.container_statuses[0].state.terminated
    assert (terminated.reason, terminated.exit_code) == ("OOMKilled", 137)
