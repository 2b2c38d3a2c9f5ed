"""The lab's addresses and the command lines of its parts."""

from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridgehead.kubelet.runtimes.isolation.privileges import plan_capabilities
from bridgehead.kubelet.runtimes.runtime import Security
from bridgehead.lab.addressing import IPV4, IPV6, MAX_API_SERVERS, MAX_NODES
from bridgehead.lab.plan import (
    LabConfig,
    LabFiles,
    plan_container_capabilities,
    plan_container_lines,
    plan_nodes,
    plan_parts,
    plan_servers,
)
from bridgehead.lab.system_objects import system_manifests
from bridgehead.yaml_loader import load_all

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


SEVERAL = LabConfig(name="lab", nodes=1, port=6443, ip_family="dual", store="etcd", api_servers=3)


def test_each_api_server_has_controllers_and_a_member_of_etcd_beside_it():
    parts = {part.name: part for part in plan_parts(SEVERAL, LabFiles(Path("/state")), listen_fd=7)}
    assert list(parts) == [
        "etcd", "etcd-2", "etcd-3", "apiserver", "apiserver-2", "apiserver-3",
        "controllers", "controllers-2", "controllers-3", "runtime-node1", "kubelet-node1",
    ]  # fmt: skip
    assert [name for name, part in parts.items() if part.is_program] == ["etcd", "etcd-2", "etcd-3"]
    assert {name.partition("-")[0] for name, part in parts.items() if part.starts_first} == {"etcd", "apiserver"}
    members = "etcd=https://10.0.0.1:2380,etcd-2=https://10.0.0.2:2380,etcd-3=https://10.0.0.3:2380"
    for name in ("etcd", "etcd-2", "etcd-3"):
        assert f"--initial-cluster={members}" in parts[name].argv
    for option, name in (
        ("--data-dir=/state/store/etcd-2", "etcd-2"),
        ("--listen-client-urls=https://10.0.0.2:2379", "etcd-2"),
        ("--listen-metrics-urls=http://127.0.0.2:2381", "etcd-2"),
        ("--listen=[fd00:10::2]:6443", "apiserver-2"),
        ("--advertise-address=10.0.0.2:6443", "apiserver-2"),
        ("--etcd-servers=https://10.0.0.2:2379,https://10.0.0.1:2379,https://10.0.0.3:2379", "apiserver-2"),
        ("--metrics=127.0.0.3:10257", "controllers-3"),
    ):
        assert option in parts[name].argv
    for number in ("", "-2", "-3"):
        server = parts[f"apiserver{number}"]
        assert "--listen-fd=7" in server.argv
        assert server.descriptors == (7,)
        assert not any(option.startswith("--store") for option in server.argv)
        assert "--no-leader-elect" not in parts[f"controllers{number}"].argv


def test_one_api_server_on_etcd_needs_no_election():
    config = msgspec.structs.replace(SEVERAL, api_servers=1)
    parts = {part.name: part for part in plan_parts(config, LabFiles(Path("/state")), listen_fd=7)}
    assert list(parts) == ["etcd", "apiserver", "controllers", "runtime-node1", "kubelet-node1"]
    assert "--no-leader-elect" in parts["controllers"].argv


def test_api_servers_have_addresses_that_nothing_else_has():
    servers = plan_servers(msgspec.structs.replace(SEVERAL, api_servers=MAX_API_SERVERS))
    assert servers[0].addresses == (IPV4.lab, IPV6.lab)
    for index, ranges in enumerate((IPV4, IPV6)):
        addresses = [ip_address(server.addresses[index]) for server in servers]
        assert len(set(addresses)) == MAX_API_SERVERS
        first_of_balancer = ip_address(ranges.balancer.partition("-")[0])
        assert all(address in ip_network(ranges.fabric) for address in addresses)
        assert all(int(address) < int(first_of_balancer) for address in addresses)


def test_a_lab_without_a_stored_store_has_sqlite():
    config = msgspec.json.decode(b'{"name": "lab", "nodes": 1, "port": 1}', type=LabConfig)
    assert (config.store, config.api_servers) == ("sqlite", 1)


@pytest.mark.parametrize(
    ("config", "host", "servers"),
    [
        (CONFIG, ("10.0.0.1", "6443"), ["https://10.0.0.1:6443"]),
        (msgspec.structs.replace(SEVERAL, ip_family="ipv6"), ("fd00:10:96::1", "443"),
         [f"https://[fd00:10::{number}]:6443" for number in (1, 2, 3)]),
    ],
)  # fmt: skip
def test_system_pods_find_every_api_server(config, host, servers):
    """kube-proxy knows them all; the others use the Service, if there are several."""
    (settings,) = (one for one in system_manifests("kube-proxy.yaml", config) if one["kind"] == "ConfigMap")
    (cluster,) = load_all(settings["data"]["kubeconfig.conf"])[0]["clusters"]
    assert cluster["cluster"]["server"] == servers[0]
    assert cluster["cluster"]["extensions"][0]["extension"]["servers"] == servers
    for file in ("dns.yaml", "node-dns.yaml", "balancer.yaml"):
        for manifest in system_manifests(file, config):
            if manifest["kind"] in ("Deployment", "DaemonSet"):
                (container,) = manifest["spec"]["template"]["spec"]["containers"]
                values = {one["name"]: one.get("value") for one in container["env"]}
                assert (values["KUBERNETES_SERVICE_HOST"], values["KUBERNETES_SERVICE_PORT"]) == host


def test_runtimes_get_the_reason_for_a_missing_cgroup():
    files = LabFiles(Path("/state"))
    runtimes = [
        [part for part in plan_parts(CONFIG, files, listen_fd=7, lack_of_cgroup=lack) if part.zygote is not None]
        for lack in ("", "this user has none")
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


def capabilities_of_manifests(config: LabConfig, *files: str) -> set[frozenset[str]]:
    """The capabilities of the DaemonSets' containers that have a filter of system calls."""
    contexts = [
        container.get("securityContext", {})
        for file in files
        for manifest in system_manifests(file, config)
        if manifest["kind"] == "DaemonSet"
        for container in manifest["spec"]["template"]["spec"]["containers"]
    ]
    lists = [context.get("capabilities", {}) for context in contexts if not context.get("privileged")]
    return {
        plan_capabilities(Security(add_capabilities=tuple(one.get("add", ())), drop_capabilities=tuple(one["drop"])))
        for one in lists
        if one
    }


def test_the_capabilities_of_containers_are_those_of_the_manifests():
    files = ("kube-proxy.yaml", "dns.yaml", "node-dns.yaml", "balancer.yaml")
    assert set(plan_container_capabilities(CONFIG)) == capabilities_of_manifests(CONFIG, *files)
    without = msgspec.structs.replace(CONFIG, balancer=False)
    assert set(plan_container_capabilities(without)) == capabilities_of_manifests(without, *files[:-1])


def test_pods_that_ask_the_nodes_resolver_get_one_only_with_the_outside():
    def kubelets(config: LabConfig) -> list[tuple[str, ...]]:
        parts = plan_parts(config, LabFiles(Path("/state")), listen_fd=7)
        return [part.argv for part in parts if part.name.startswith("kubelet")]

    assert all("--resolv-conf=" in argv for argv in kubelets(CONFIG))
    first, second = kubelets(msgspec.structs.replace(CONFIG, outside=True))
    assert "--resolv-conf=/run/bridgehead/node1/resolv.conf" in first
    assert "--resolv-conf=/run/bridgehead/node2/resolv.conf" in second
