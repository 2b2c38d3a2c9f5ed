"""The mount of a pod's shared memory in its containers."""

from __future__ import annotations

from pathlib import Path

from bridgehead.kubelet.runtimes.runtime import Mount, SandboxSpec
from bridgehead.kubelet.runtimes.service.shared_memory import SharedMemory


def test_a_volume_at_its_path_replaces_shared_memory(tmp_path: Path) -> None:
    (tmp_path / "shm" / "left").mkdir(parents=True)
    memory = SharedMemory(str(tmp_path / "shm"))
    assert list((tmp_path / "shm").iterdir()) == []  # of an earlier runtime
    pod = SandboxSpec(pod_uid="u", namespace="default", name="web", hostname="web")
    data, own = Mount(source="/v", target="/data"), Mount(source="/v", target="/dev/shm/")
    assert memory.add_mount(pod, (data,)) == (data, Mount(source=str(tmp_path / "shm" / "u"), target="/dev/shm"))
    assert memory.add_mount(pod, (own,)) == (own,)


def test_a_pod_in_the_nodes_ipc_namespace_has_its_shared_memory(tmp_path: Path) -> None:
    memory = SharedMemory(str(tmp_path / "shm"))
    pod = SandboxSpec(pod_uid="u", namespace="default", name="web", hostname="web", host_ipc=True)
    assert memory.add_mount(pod, ()) == (Mount(source="/dev/shm", target="/dev/shm"),)
    memory.make(pod)
    memory.remove(pod)
    assert list((tmp_path / "shm").iterdir()) == []
