"""Pods that a node rejects, and fields that have no effect."""

from __future__ import annotations

import msgspec
import pytest

from bridgehead.kubelet.errors import SandboxRefused
from bridgehead.kubelet.pods.admission import (
    admission_refusal,
    check_namespaces,
    has_host_ports,
    pod_sysctls,
    room_refusal,
    unsupported_fields,
)
from bridgehead.kubelet.pods.static_manifest import SOURCE
from bridgehead.objects.core import PodStatus
from tests.unit.kubelet.pod_factory import make_pod


def sysctls(*names, **spec):
    return make_pod({"sysctls": [{"name": name, "value": "1"} for name in names]}, **spec)


@pytest.mark.parametrize(
    ("made", "refusal"),
    [
        (make_pod(), None),
        (make_pod(os={"name": "linux"}), None),
        (
            make_pod(os={"name": "windows"}),
            ("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"),
        ),
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
        (make_pod({"appArmorProfile": {"type": "Unconfined"}}), None),
        (
            make_pod({"appArmorProfile": {"type": "RuntimeDefault"}}),
            ("AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host"),
        ),
        (make_pod({"appArmorProfile": {"type": "RuntimeDefault"}}, {"appArmorProfile": {"type": "Unconfined"}}), None),
        (
            make_pod(None, {"appArmorProfile": {"type": "Localhost", "localhostProfile": "x"}}),
            ("AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host"),
        ),
        (
            make_pod(annotations={"container.apparmor.security.beta.kubernetes.io/app": "localhost/x"}),
            ("AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host"),
        ),
        (make_pod(annotations={"container.apparmor.security.beta.kubernetes.io/app": "unconfined"}), None),
    ],
)
def test_unsupported_pods_are_rejected(made, refusal):
    assert admission_refusal(made, has_app_armor=False) == refusal


def test_with_app_armor_in_the_kernel_only_the_message_differs():
    refused = admission_refusal(make_pod({"appArmorProfile": {"type": "RuntimeDefault"}}), has_app_armor=True)
    assert refused == ("AppArmor", "Cannot enforce AppArmor: the container runtime applies no profiles")


def test_sysctls_are_written_with_dots():
    names = ("net/ipv4/conf/eth0.1/forwarding", "net.ipv4.conf.eth0/1.arp_filter", "net.ipv4.tcp_rmem")
    expected = ["net.ipv4.conf.eth0/1.forwarding", "net.ipv4.conf.eth0/1.arp_filter", "net.ipv4.tcp_rmem"]
    assert list(pod_sysctls(sysctls(*names))) == expected


def test_unsupported_namespaces_are_reported():
    with pytest.raises(SandboxRefused, match="hostUsers: false is not supported"):
        check_namespaces(make_pod(hostUsers=False))


def test_supported_namespaces_are_accepted():
    check_namespaces(make_pod(shareProcessNamespace=True, hostUsers=True, hostIPC=True))


@pytest.mark.parametrize(
    ("made", "reasons"),
    [
        (make_pod(), []),
        (make_pod({"seLinuxOptions": {"level": "s0"}}), ["SELinuxNotSupported"]),
        (make_pod({}, {"seLinuxOptions": {"type": "spc_t"}}), ["SELinuxNotSupported"]),
    ],
)
def test_fields_without_effect_are_listed(made, reasons):
    assert [reason for reason, _ in unsupported_fields(made)] == reasons


def test_host_ports_of_the_pods_own_network():
    container = {"name": "a", "ports": [{"containerPort": 1, "hostPort": 1}]}
    assert has_host_ports(make_pod(containers=[container]))
    assert not has_host_ports(make_pod(containers=[container], hostNetwork=True))
    assert not has_host_ports(make_pod(containers=[{"name": "a", "ports": [{"containerPort": 1}]}]))


def requesting(finished=False, annotations=None, **spec):
    containers = [{"name": "app", "resources": {"requests": spec.pop("requests", {})}}]
    made = make_pod(annotations=annotations, containers=containers, **spec)
    return msgspec.structs.replace(made, status=PodStatus(phase="Succeeded")) if finished else made


NODE = {"cpu": "2", "memory": "1Gi", "pods": "3", "ephemeral-storage": "1Gi"}
LACK = "Node didn't have enough resource: "


@pytest.mark.parametrize(
    ("wanted", "others", "refusal"),
    [
        (requesting(requests={"cpu": "2", "memory": "1Gi", "example.com/gpu": "1"}), [], None),
        (
            requesting(requests={"cpu": "1"}),
            [requesting(requests={"cpu": "1500m"})],
            ("OutOfcpu", f"{LACK}cpu, requested: 1000, used: 1500, capacity: 2000"),
        ),
        (requesting(requests={"cpu": "1"}), [requesting(finished=True, requests={"cpu": "1500m"})], None),
        (requesting(), [requesting(requests={"cpu": "9"})], None),
        (
            requesting(requests={"memory": "2Gi"}),
            [],
            ("OutOfmemory", f"{LACK}memory, requested: 2147483648, used: 0, capacity: 1073741824"),
        ),
        (
            requesting(requests={"ephemeral-storage": "2Gi"}),
            [],
            (
                "OutOfephemeral-storage",
                f"{LACK}ephemeral-storage, requested: 2147483648, used: 0, capacity: 1073741824",
            ),
        ),
        (requesting(), [requesting()] * 3, ("OutOfpods", f"{LACK}pods, requested: 1, used: 3, capacity: 3")),
        (requesting(requests={"cpu": "9"}, priority=2_000_000_000), [], None),
        (requesting(requests={"cpu": "9"}, annotations={SOURCE: "file"}), [], None),
    ],
)
def test_a_pod_needs_what_the_node_has_left(wanted, others, refusal):
    assert room_refusal(wanted, others, NODE) == refusal


def publishing(port, protocol="TCP", host_ip="", finished=False, **spec):
    ports = [{"containerPort": 80, "hostPort": port, "protocol": protocol, "hostIP": host_ip}]
    made = make_pod(containers=[{"name": "app", "ports": ports}], **spec)
    return msgspec.structs.replace(made, status=PodStatus(phase="Failed")) if finished else made


@pytest.mark.parametrize(
    ("wanted", "taken", "is_refused"),
    [
        (publishing(80), publishing(80), True),
        (publishing(80, priority=2_000_000_000), publishing(80), True),
        (publishing(80), publishing(80, finished=True), False),
        (publishing(80), publishing(81), False),
        (publishing(80, "UDP"), publishing(80), False),
        (publishing(80, host_ip="127.0.0.1"), publishing(80), True),
        (publishing(80, host_ip="127.0.0.1"), publishing(80, host_ip="10.0.0.1"), False),
    ],
)
def test_a_pod_needs_free_ports_of_the_node(wanted, taken, is_refused):
    why = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
    assert room_refusal(wanted, [taken], NODE) == (("NodePorts", why) if is_refused else None)
