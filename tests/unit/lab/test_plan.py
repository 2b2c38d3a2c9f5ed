"""The lab's addresses and the command lines of its parts."""

from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridgehead.lab.addressing import IPV4, IPV6, MAX_NODES
from bridgehead.lab.plan import LabConfig, LabFiles, plan_container_lines, plan_nodes, plan_parts
from bridgehead.lab.system import system_manifests

CONFIG = LabConfig(name="lab", nodes=2, port=6443, ip_family="dual")


@pytest.mark.parametrize(
    ("family", "addresses", "pods"),
    [
        ("ipv4", ("10.0.0.202",), ("10.244.2.0/24",)),
        ("ipv6", ("fd00:10::202",), ("fd00:10:244:2::/64",)),
        ("dual", ("10.0.0.202", "fd00:10::202"), ("10.244.2.0/24", "fd00:10:244:2::/64")),
    ],
)
def test_nodes_have_consecutive_addresses(family, addresses, pods):
    node = plan_nodes(LabConfig(name="lab", nodes=2, port=6443, ip_family=family))[1]
    assert (node.name, node.addresses, node.pod_ranges) == ("node2", addresses, pods)


def test_addresses_are_unique_and_in_their_ranges():
    nodes = plan_nodes(LabConfig(name="lab", nodes=MAX_NODES, port=6443, ip_family="dual"))
    for attribute in ("addresses", "pod_ranges", "netns", "utsns", "runtime_socket"):
        assert len({getattr(node, attribute) for node in nodes}) == MAX_NODES
    for index, ranges in enumerate((IPV4, IPV6)):
        pods: Any = ip_network(ranges.pods)
        for node in nodes:
            assert ip_address(node.addresses[index]) in ip_network(ranges.fabric)
            assert ip_network(node.pod_ranges[index]).subnet_of(pods)
        assert {ip_address(ranges.cluster_dns), ip_address(ranges.kubernetes_service)} <= {
            ip_network(ranges.services)[10], ip_network(ranges.services)[1]
        }  # fmt: skip


def test_a_lab_without_a_stored_family_has_ipv4():
    assert msgspec.json.decode(b'{"name": "lab", "nodes": 1, "port": 1}', type=LabConfig).ranges == (IPV4,)


def test_parts_have_command_lines():
    parts = plan_parts(CONFIG, LabFiles(Path("/state")), listen_fd=7)
    assert [part.name for part in parts] == [
        "apiserver", "controllers", "runtime-node1", "kubelet-node1", "runtime-node2", "kubelet-node2",
    ]  # fmt: skip
    assert "--listen-fd=7" in parts[0].argv
    assert [part.node.name if part.node else None for part in parts[1:4]] == [None, "node1", "node1"]
    for option, argv in (
        ("--service-cluster-ip-range=10.96.0.0/12,fd00:10:96::/112", parts[0].argv),
        ("--listen=[fd00:10::1]:6443", parts[0].argv),
        ("--advertise-address=10.0.0.1:6443", parts[0].argv),
        ("--node-ip=10.0.0.202,fd00:10::202", parts[5].argv),
        ("--pod-cidr=10.244.2.0/24,fd00:10:244:2::/64", parts[5].argv),
        ("--cluster-dns=10.96.0.10", parts[5].argv),
    ):
        assert option in argv


def test_runtimes_get_the_reason_for_a_missing_cgroup():
    runtimes = [
        [part for part in plan_parts(CONFIG, LabFiles(Path("/state")), listen_fd=7, **more) if part.zygote is not None]
        for more in ({}, {"lack_of_cgroup": "this user has none"})
    ]
    assert [[any("cgroup" in word for word in part.argv) for part in parts] for parts in runtimes] == [
        [False] * 2,
        [True] * 2,
    ]
    assert "--lack-of-cgroup=this user has none" in runtimes[1][0].argv
    assert all(f"--zygote-fd={part.zygote}" in part.argv for parts in runtimes for part in parts)


def lines_of_manifests(*files: str) -> set[tuple[str, ...]]:
    """The command lines of the containers on a node named node2; without the arguments if one depends on the pod."""
    lines = set()
    for file in files:
        for manifest in system_manifests(file, CONFIG):
            if manifest["kind"] in ("Deployment", "DaemonSet"):
                for container in manifest["spec"]["template"]["spec"]["containers"]:
                    part = container["image"].partition("/")[2].partition(":")[0]
                    arguments = [text.replace("$(NODE_NAME)", "node2") for text in container["args"]]
                    lines.add((part, *(() if any("$(" in text for text in arguments) else arguments)))
    return lines


def test_the_lines_of_containers_are_those_of_the_manifests():
    without = msgspec.structs.replace(CONFIG, balancer=False)
    for config, files in (
        (CONFIG, ("kube-proxy.yaml", "dns.yaml", "balancer.yaml")),
        (without, ("kube-proxy.yaml", "dns.yaml")),
    ):
        lines = plan_container_lines(config)
        assert {line for line in lines if not any("node1" in argument for argument in line)} == lines_of_manifests(
            *files
        )
        assert {tuple(text.replace("node1", "node2") for text in line) for line in lines} == lines_of_manifests(*files)
