"""Pods that a node rejects, and fields that have no effect."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.kubelet.pods.unsupported_fields import (
    admission_refusal,
    has_host_ports,
    pod_sysctls,
    unsupported_fields,
)
from bridgehead.objects.core import Pod
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


def volumes(**source: Any) -> Pod:
    return make_pod(hostUsers=False, volumes=[{"name": "data", **source}])


@pytest.mark.parametrize(
    ("made", "has_ids", "cause"),
    [
        (make_pod(hostUsers=False), True, ""),
        (make_pod(hostUsers=True), False, ""),
        (make_pod(), False, ""),
        (make_pod(hostUsers=False), False, "the lab has no 65536 users for it beside its own 65536"),
        (volumes(emptyDir={}), True, ""),
        (volumes(image={"reference": "i"}), True, ""),
        (volumes(hostPath={"path": "/x"}), True, 'the files of the volume "data" would belong to other users'),
        (volumes(persistentVolumeClaim={"claimName": "c"}), True, 'the files of the volume "data" would belong to'),
        (volumes(ephemeral={"volumeClaimTemplate": {"spec": {}}}), True, 'the files of the volume "data" would belong'),
    ],
)
def test_a_pod_with_users_of_its_own_needs_ids_and_files_of_its_own(made: Pod, has_ids: bool, cause: str) -> None:
    refused = admission_refusal(made, has_app_armor=False, has_user_namespaces=has_ids)
    assert (refused is not None) == bool(cause)
    if refused is not None:
        assert refused[0] == "UserNamespacesNotSupported"
        assert refused[1].startswith(f"Cannot run the pod with hostUsers: false: {cause}")


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
