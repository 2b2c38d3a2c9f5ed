"""Pods that a node rejects, and fields that have no effect."""

from __future__ import annotations

import pytest

from bridgehead.kubelet.errors import SandboxRefused
from bridgehead.kubelet.pods.admission import (
    admission_refusal,
    check_namespaces,
    has_host_ports,
    pod_sysctls,
    unsupported_fields,
)
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
