"""The lab's addresses and the command lines of its parts."""

from pathlib import Path

from bridgehead.lab.plan import MAX_NODES, LabConfig, LabFiles, plan_nodes, plan_parts

CONFIG = LabConfig(name="lab", nodes=2, port=6443)


def test_addresses_of_nodes():
    first, second = plan_nodes(2)
    assert (first.name, first.address, first.pod_range) == ("node1", "10.0.0.201", "10.244.1.0/24")
    assert (second.name, second.address, second.pod_range) == ("node2", "10.0.0.202", "10.244.2.0/24")


def test_addresses_never_repeat_or_leave_the_fabric():
    nodes = plan_nodes(MAX_NODES)
    for attribute in ("address", "pod_range", "netns", "utsns", "runtime_socket"):
        assert len({getattr(node, attribute) for node in nodes}) == MAX_NODES
    assert all(node.address.startswith("10.0.0.") for node in nodes)


def test_parts():
    parts = plan_parts(CONFIG, LabFiles(Path("/state")), listen_fd=7)
    assert [part.name for part in parts] == [
        "apiserver", "controllers", "runtime-node1", "kubelet-node1", "runtime-node2", "kubelet-node2",
    ]  # fmt: skip
    assert "--listen-fd=7" in parts[0].argv
    assert [part.node.name if part.node else None for part in parts[1:4]] == [None, "node1", "node1"]
