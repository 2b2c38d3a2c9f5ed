"""What a container runs as and may do, which pods a node refuses, and a container's limits and mounts."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from bridgehead.kubelet.admission import admission_refusal, check_namespaces, pod_sysctls, unsupported_fields
from bridgehead.kubelet.errors import ConfigNotReady, SandboxRefused, SecurityRefused
from bridgehead.kubelet.limits import oom_score_adj, plan_limits
from bridgehead.kubelet.mounts import plan_mounts
from bridgehead.kubelet.runtimes.runtime import Image, Limits, Mount, Seccomp, Security
from bridgehead.kubelet.security import plan_security
from bridgehead.objects.core import Pod

PROFILES = Path("/var/lib/kubelet/seccomp")
IN_POD = '(pod: "p_ns(u)", container: app)'
DEFAULT = Security()


def pod(of_pod=None, own=None, *, annotations=None, qos_class="", **spec):
    container = {"name": "app", **({"securityContext": own} if own is not None else {})}
    spec = {"containers": [container], **({"securityContext": of_pod} if of_pod is not None else {}), **spec}
    meta = {"name": "p", "namespace": "ns", "uid": "u", "annotations": annotations or {}}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": {"qosClass": qos_class}}, Pod)


def plan(pod, user=""):
    return plan_security(pod, pod.spec.containers[0], Image(name="i", id="i", source="store", user=user), PROFILES)


# --- Security --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("of_pod", "own", "expected"),
    [
        (None, None, DEFAULT),
        ({}, {}, DEFAULT),
        ({"runAsUser": 1, "runAsGroup": 2}, {}, Security(user=1, group=2)),
        ({"runAsUser": 1, "runAsGroup": 2}, {"runAsUser": 0, "runAsGroup": 0}, Security(user=0, group=0)),
        ({"supplementalGroups": [5, 6], "fsGroup": 4}, None, Security(supplemental_groups=(4, 5, 6))),
        ({"supplementalGroups": [5, 4, 5], "fsGroup": 4}, None, Security(supplemental_groups=(4, 5))),
        ({"fsGroup": 0}, None, Security(supplemental_groups=(0,))),
        ({"supplementalGroupsPolicy": "Strict"}, None, Security(strict_groups=True)),
        ({"supplementalGroupsPolicy": "Merge"}, None, DEFAULT),
        (
            None,
            {"capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]}},
            Security(add_capabilities=("NET_ADMIN",), drop_capabilities=("ALL",)),
        ),
        (None, {"allowPrivilegeEscalation": False}, Security(no_new_privileges=True)),
        (None, {"allowPrivilegeEscalation": True}, DEFAULT),
        (None, {"readOnlyRootFilesystem": True}, Security(read_only_root=True)),
        (None, {"procMount": "Unmasked"}, Security(unmasked_proc=True)),
        (None, {"procMount": "Default"}, DEFAULT),
        (None, {"privileged": True}, Security(privileged=True, seccomp=Seccomp(kind="Unconfined"))),
        (
            None,
            {"privileged": True, "seccompProfile": {"type": "RuntimeDefault"}},
            Security(privileged=True, seccomp=Seccomp(kind="Unconfined")),
        ),
        ({"seccompProfile": {"type": "Unconfined"}}, None, Security(seccomp=Seccomp(kind="Unconfined"))),
        ({"seccompProfile": {"type": "Unconfined"}}, {"seccompProfile": {"type": "RuntimeDefault"}}, DEFAULT),
        (
            {"seccompProfile": {"type": "Localhost", "localhostProfile": "a/b.json"}},
            None,
            Security(seccomp=Seccomp(kind="Localhost", path="/var/lib/kubelet/seccomp/a/b.json")),
        ),
        ({"runAsNonRoot": True, "runAsUser": 7}, None, Security(user=7)),
        ({"runAsNonRoot": True}, {"runAsNonRoot": False}, DEFAULT),
        ({"runAsNonRoot": False}, {"runAsUser": 0}, Security(user=0)),
    ],
)
def test_what_a_container_may_do(of_pod, own, expected):
    assert plan(pod(of_pod, own)) == expected


@pytest.mark.parametrize(
    ("user", "expected"),
    [("", None), ("0", 0), ("1000", 1000), ("1000:2000", 1000), ("nginx", None), ("nginx:nginx", None)],
)
def test_the_user_of_an_image(user, expected):
    assert plan(pod(), user).user == expected
    assert plan(pod({"runAsUser": 5}), user).user == 5


@pytest.mark.parametrize(
    ("of_pod", "own", "user", "words"),
    [
        ({"runAsNonRoot": True}, None, "", f"container has runAsNonRoot and image will run as root {IN_POD}"),
        (None, {"runAsNonRoot": True}, "0", f"container has runAsNonRoot and image will run as root {IN_POD}"),
        (None, {"runAsNonRoot": True}, "0:5", f"container has runAsNonRoot and image will run as root {IN_POD}"),
        (None, {"runAsNonRoot": True}, "00", f"container has runAsNonRoot and image will run as root {IN_POD}"),
        ({"runAsNonRoot": True}, {"runAsUser": 0}, "1", f"container's runAsUser breaks non-root policy {IN_POD}"),
        ({"runAsNonRoot": True, "runAsUser": 0}, {}, "1", f"container's runAsUser breaks non-root policy {IN_POD}"),
        (
            {"runAsNonRoot": False},
            {"runAsNonRoot": True},
            "nginx:www",
            "container has runAsNonRoot and image has non-numeric user (nginx), "
            f"cannot verify user is non-root {IN_POD}",
        ),
    ],
)
def test_root_where_none_is_wanted(of_pod, own, user, words):
    with pytest.raises(SecurityRefused) as refused:
        plan(pod(of_pod, own), user)
    assert str(refused.value) == words


def test_images_that_do_not_run_as_root():
    assert plan(pod({"runAsNonRoot": True}), "1000:0").user == 1000


def test_init_containers_have_contexts_too():
    init = [{"name": "first", "securityContext": {"allowPrivilegeEscalation": False}}]
    made = pod({"runAsUser": 9}, initContainers=init)
    image = Image(name="i", id="i", source="store")
    expected = Security(user=9, no_new_privileges=True)
    assert plan_security(made, made.spec.init_containers[0], image, PROFILES) == expected


# --- Pods that a node does not take --------------------------------------------------------------------------


def sysctls(*names, **spec):
    return pod({"sysctls": [{"name": name, "value": "1"} for name in names]}, **spec)


@pytest.mark.parametrize(
    ("made", "refusal"),
    [
        (pod(), None),
        (sysctls("net.ipv4.tcp_syncookies", "kernel.shm_rmid_forced"), None),
        (sysctls("net/ipv4/tcp_syncookies"), None),
        (sysctls("kernel.msgmax"), ("SysctlForbidden", 'forbidden sysctl: "kernel.msgmax" not allowlisted')),
        (
            sysctls("net.ipv4.tcp_syncookies", "vm.swappiness"),
            ("SysctlForbidden", 'forbidden sysctl: "vm.swappiness" not allowlisted'),
        ),
        (
            sysctls("net.ipv4.tcp_rmem", hostNetwork=True),
            ("SysctlForbidden", 'forbidden sysctl: "net.ipv4.tcp_rmem" not allowed with host net enabled'),
        ),
        (
            sysctls("kernel.shm_rmid_forced", hostIPC=True),
            ("SysctlForbidden", 'forbidden sysctl: "kernel.shm_rmid_forced" not allowed with host ipc enabled'),
        ),
        (pod({"appArmorProfile": {"type": "Unconfined"}}), None),
        (
            pod({"appArmorProfile": {"type": "RuntimeDefault"}}),
            ("AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host"),
        ),
        (pod({"appArmorProfile": {"type": "RuntimeDefault"}}, {"appArmorProfile": {"type": "Unconfined"}}), None),
        (
            pod(None, {"appArmorProfile": {"type": "Localhost", "localhostProfile": "x"}}),
            ("AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host"),
        ),
        (
            pod(annotations={"container.apparmor.security.beta.kubernetes.io/app": "localhost/x"}),
            ("AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host"),
        ),
        (pod(annotations={"container.apparmor.security.beta.kubernetes.io/app": "unconfined"}), None),
    ],
)
def test_pods_that_a_node_refuses(made, refusal):
    assert admission_refusal(made, has_app_armor=False) == refusal


def test_a_kernel_with_app_armor_changes_only_the_words():
    refused = admission_refusal(pod({"appArmorProfile": {"type": "RuntimeDefault"}}), has_app_armor=True)
    assert refused == ("AppArmor", "Cannot enforce AppArmor: the container runtime applies no profiles")


def test_sysctls_are_spelled_with_dots():
    names = ("net/ipv4/conf/eth0.1/forwarding", "net.ipv4.conf.eth0/1.arp_filter", "net.ipv4.tcp_rmem")
    expected = ["net.ipv4.conf.eth0/1.forwarding", "net.ipv4.conf.eth0/1.arp_filter", "net.ipv4.tcp_rmem"]
    assert list(pod_sysctls(sysctls(*names))) == expected


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"shareProcessNamespace": True}, "shareProcessNamespace is not supported"),
        ({"hostUsers": False}, "hostUsers: false is not supported"),
    ],
)
def test_namespaces_that_the_runtime_cannot_make(spec, words):
    with pytest.raises(SandboxRefused, match=words):
        check_namespaces(pod(**spec))


def test_namespaces_that_it_can_make():
    check_namespaces(pod(shareProcessNamespace=False, hostUsers=True, hostPID=True, hostIPC=True))


@pytest.mark.parametrize(
    ("made", "reasons"),
    [
        (pod(), []),
        (pod({"seLinuxOptions": {"level": "s0"}}), ["SELinuxNotSupported"]),
        (pod({}, {"seLinuxOptions": {"type": "spc_t"}}), ["SELinuxNotSupported"]),
        (pod(containers=[{"name": "a", "ports": [{"containerPort": 1, "hostPort": 1}]}]), ["HostPortNotSupported"]),
    ],
)
def test_fields_without_effect(made, reasons):
    assert [reason for reason, _ in unsupported_fields(made)] == reasons


# --- Limits ----------------------------------------------------------------------------------------------

GIB = 1 << 30


def limited(limits=None, requests=None, qos_class="Burstable", **spec):
    resources = {"limits": limits or {}, "requests": requests or {}}
    return pod(qos_class=qos_class, containers=[{"name": "app", "resources": resources}], **spec)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (limited(qos_class="BestEffort"), Limits(pids=9, oom_score_adj=1000)),
        (
            limited({"memory": "1Gi", "cpu": "1500m"}, {"memory": "512Mi", "cpu": "0.25"}),
            Limits(memory=GIB, cpu_millis=1500, cpu_request_millis=250, pids=9, oom_score_adj=875),
        ),
        (
            limited({"memory": "1Gi", "cpu": 2}, qos_class="Guaranteed"),
            Limits(memory=GIB, cpu_millis=2000, cpu_request_millis=2000, pids=9, oom_score_adj=-997),
        ),
        (limited({"memory": "0", "cpu": "0"}), Limits(pids=9, oom_score_adj=999)),
        (limited({"cpu": "0.1m"}), Limits(cpu_millis=1, cpu_request_millis=1, pids=9, oom_score_adj=999)),
    ],
)
def test_limits(made, expected):
    assert plan_limits(made, made.spec.containers[0], {"memory": "4Gi"}, 9) == expected


@pytest.mark.parametrize(
    ("made", "score"),
    [
        (limited(requests={"memory": "1"}), 999),
        (limited(requests={"memory": "4Gi"}), 3),
        (limited(requests={"memory": "9Gi"}), 3),
        (limited(qos_class="BestEffort", priorityClassName="system-node-critical"), -997),
    ],
)
def test_who_is_killed_first_when_memory_is_out(made, score):
    assert oom_score_adj(made, made.spec.containers[0], 4 * GIB) == score


def test_a_sidecar_is_no_likelier_to_be_killed_than_what_it_serves():
    init = [{"name": "side", "restartPolicy": "Always"}, {"name": "init"}]
    made = limited(requests={"memory": "2Gi"}, initContainers=init)
    scores = [oom_score_adj(made, container, 4 * GIB) for container in made.spec.init_containers]
    assert scores == [500, 999]


# --- Mounts ----------------------------------------------------------------------------------------------


def mounted(env=None, **mount):
    volumes = [{"name": "dir", "emptyDir": {}}, {"name": "cfg", "configMap": {"name": "c"}}]
    container = {"name": "app", "volumeMounts": [{"name": "dir", "mountPath": "/m", **mount}]}
    made = pod(containers=[container], volumes=volumes)
    return plan_mounts(made, made.spec.containers[0], env or {}, {"dir": "/v/dir", "cfg": "/v/cfg"})


@pytest.mark.parametrize(
    ("mount", "expected"),
    [
        ({}, Mount(source="/v/dir", target="/m")),
        ({"readOnly": True}, Mount(source="/v/dir", target="/m", read_only=True)),
        ({"name": "cfg"}, Mount(source="/v/cfg", target="/m", read_only=True)),
        ({"subPath": "x/..y"}, Mount(source="/v/dir", target="/m", sub_path="x/..y")),
        ({"subPathExpr": "$(A)/$$(B)"}, Mount(source="/v/dir", target="/m", sub_path="1/$(B)")),
    ],
)
def test_mounts(mount, expected):
    assert mounted({"A": "1"}, **mount) == [expected]


@pytest.mark.parametrize(
    ("mount", "words"),
    [
        ({"name": "none"}, 'cannot find volume "none" to mount into container "app"'),
        ({"subPath": "/etc"}, "error SubPath `/etc` must not be an absolute path"),
        ({"subPath": "a/../.."}, "unable to provision SubPath `a/../..`: must not contain '..'"),
        ({"subPathExpr": "$(UP)"}, "unable to provision SubPath `../x`: must not contain '..'"),
        ({"subPathExpr": "$(ROOT)/x"}, "error SubPath `//x` must not be an absolute path"),
        ({"subPathExpr": "$(C)/$(A)/$(EMPTY)"}, "missing value for C, EMPTY"),
    ],
)
def test_mounts_that_cannot_be_made(mount, words):
    with pytest.raises(ConfigNotReady) as error:
        mounted({"A": "1", "UP": "../x", "ROOT": "/", "EMPTY": ""}, **mount)
    assert str(error.value) == words
