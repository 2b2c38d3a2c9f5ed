"""Pods with users of their own (`hostUsers: false`): ids, files, capabilities and namespaces.

After Kubernetes' own tests `[Feature:UserNamespacesSupport]`.
"""

from __future__ import annotations

import contextlib
import io
import os
import socket
import struct
import tarfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from bridgehead.images import archives
from bridgehead.images.store.content import ContentStore
from bridgehead.kubelet.runtimes.isolation import shifted_owners
from bridgehead.kubelet.runtimes.runtime import POD_IDS, Mount, RuntimeFailure, Security
from bridgehead.kubelet.runtimes.spawn.zygote import Zygote
from tests.image_files import Entry, archive_of, busybox_entries, image_of, layer_of

from .runtime_world import FIRST_ID, FIRST_POD_ID, Node, World, enter_world, make_node

pytestmark = pytest.mark.integration

IMAGE = "registry.example/users:1"
BASE = POD_IDS


def as_fields(what: Entry) -> dict[str, Any]:
    if isinstance(what, dict):
        return what
    return {"type": tarfile.DIRTYPE} if what is None else {"data": what}


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with make_node("range") as node:
        of_root, of_user = {"uid": FIRST_ID, "gid": FIRST_ID}, {"uid": FIRST_ID + 7, "gid": FIRST_ID + 8}
        tools = busybox_entries("sh", "ls", "stat", "touch", "cat", "id", "mount", "umount", "sleep", "ps")
        directories = [(name, None) for name in (".", "bin", "data", "etc", "mine", "foreign")]
        layers = (
            layer_of([(name, as_fields(what) | of_root) for name, what in (*directories, *tools)]),
            layer_of(
                [
                    ("owned", {**of_user, "mode": 0o4750, "data": "x"}),
                    ("data/file", {**of_user, "mode": 0o640}),
                    ("etc/passwd", {**of_root, "data": "app:x:7:8::/:/bin/sh\n"}),
                ]
            ),
        )
        image = image_of(*layers, Entrypoint=["sh", "-c"], Volumes={"/data": {}})
        store = ContentStore(node.directory / "content")
        store.root.mkdir(exist_ok=True)
        archives.load(store, io.BytesIO(archive_of(IMAGE, image)))
        for layer in (store.root / "layers").iterdir():  # which a lab's own root makes
            os.chown(layer, FIRST_ID, FIRST_ID)
        yield node


@pytest.fixture
async def world(node: Node) -> AsyncIterator[World]:
    async with enter_world(node) as world:
        await world.pod("own", id_base=BASE)
        await world.pod("nodes")
        yield world


async def output_of(world: World, script: str, pod: str = "own", name: str = "c", **fields: object) -> list[str]:
    await world.run_to_end(pod, script, name, **fields)
    return [line.removeprefix("stdout F ") for line in world.log(pod, name) if line.startswith("stdout")]


def volume(world: World, name: str, owner: int) -> Path:
    """A directory that the kubelet has given to a pod's user."""
    path = world.directory / name
    path.mkdir(mode=0o700)
    os.chown(path, owner, owner)
    return path


async def test_the_node_has_ids_for_pods(world: World) -> None:
    assert (await world.client.find_features()).pod_id_ranges == 2


async def test_the_users_of_a_pod_are_others_than_the_nodes(world: World) -> None:
    script = "cat /proc/self/uid_map /proc/self/gid_map; id -u"
    [users, groups, root] = await output_of(world, script)
    assert users.split() == groups.split() == ["0", str(BASE), str(POD_IDS)]
    assert root == "0"
    assert (await output_of(world, "head -1 /proc/self/uid_map", "nodes"))[0].split() == ["0", str(FIRST_ID), "65536"]
    # Its root is an ordinary user of the machine, and no other pod's.
    own, other = [
        machine_pid((await world.start(pod, "long", command=("sleep", "1000"))).pid, world) for pod in ("own", "nodes")
    ]
    assert os.stat(f"/proc/{own}").st_uid == FIRST_POD_ID
    for kind in ("user", "net", "uts", "ipc", "mnt", "pid"):
        assert os.readlink(f"/proc/{own}/ns/{kind}") != os.readlink(f"/proc/{other}/ns/{kind}")


def machine_pid(pid: int, world: World) -> int:
    """The number here of a process of the node's PID namespace."""
    of_node = [world.node.process.pid]
    for parent in of_node:
        with contextlib.suppress(OSError):  # it has ended
            of_node += map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text().split())
    for number in of_node:
        with contextlib.suppress(OSError):
            text = Path(f"/proc/{number}/status").read_text()
            numbers = next((line.split()[1:] for line in text.splitlines() if line.startswith("NSpid:")), [])
            if len(numbers) >= 2 and int(numbers[-2]) == pid and "sleep" in text.splitlines()[0]:
                return number
    raise AssertionError(f"no process {pid} of the node")


async def test_the_files_of_an_image_and_of_volumes_belong_to_the_pods_users(world: World) -> None:
    data = volume(world, "mine", FIRST_POD_ID)
    foreign = volume(world, "foreign", FIRST_ID)
    script = (
        "stat -c '%u %g %a' / /owned /data /data/file /etc /etc/passwd /dev /proc/1 /dev/shm;"
        " touch /new /etc/new /data/new /dev/shm/new /mine/new && stat -c '%u %g' /new /mine/new;"
        " touch /foreign/new 2>/dev/null || echo refused; stat -c '%u' /foreign; cat /owned; echo"
    )
    found = await output_of(
        world,
        script,
        image=IMAGE,
        volume_directory=str(world.directory / "run"),
        mounts=(Mount(source=str(data), target="/mine"), Mount(source=str(foreign), target="/foreign")),
    )
    owners = ["0 0 755", "7 8 4750", "0 0 755", "7 8 640", "0 0 755", "0 0 755", "0 0 755", "0 0 555", "0 0 1777"]
    assert found == [*owners, "0 0", "0 0", "refused", "65534", "x"]
    assert (data / "new").stat().st_uid == FIRST_POD_ID


async def test_a_user_of_the_pod_has_its_files_and_streams(world: World) -> None:
    data = volume(world, "mine", FIRST_POD_ID + 1000)
    mounts = (Mount(source=str(data), target="/mine"),)
    security = Security(user=1000, group=1000, supplemental_groups=(2000,))
    script = "id -u; id -G; touch /mine/f && stat -c '%u %g' /mine/f; echo named >/dev/stdout"
    found = await output_of(world, script, mounts=mounts, security=security)
    assert found == ["1000", "1000 2000", "1000 1000", "named"]
    running = await world.start("own", "long", command=("sleep", "1000"), mounts=mounts, security=security)
    assert await world.sh(running, "id -u; cat /proc/self/uid_map; stat -c %u /proc/1; echo again >/dev/stdout") == (
        f"1000\n{0:>10} {BASE:>10} {POD_IDS:>10}\n1000\nagain\n"
    )
    with pytest.raises(RuntimeFailure, match="cannot run as user 65536"):
        await world.start("own", "none", security=Security(user=65536))


async def test_capabilities_count_in_the_pod_only(world: World) -> None:
    security = Security(privileged=True)
    script = (
        "mkdir /tmp/m && mount -t tmpfs none /tmp/m && touch /tmp/m/f && echo mounted; hostname changed && hostname;"
        " umount /proc/sys 2>/dev/null || echo kept; ip link set lo down && echo down;"
        " echo 1 >/proc/sys/kernel/panic 2>/dev/null || echo refused"
    )
    assert await output_of(world, script, security=security) == ["mounted", "changed", "kept", "down", "refused"]
    # Without the capability its root mounts nothing.
    assert await output_of(world, "mount -t tmpfs none /mnt 2>/dev/null || echo refused", name="two") == ["refused"]


async def test_two_pods_have_different_users(world: World) -> None:
    await world.pod("second", id_base=2 * BASE)
    shared = volume(world, "shared", FIRST_POD_ID)
    mounts = (Mount(source=str(shared), target="/shared"),)
    assert await output_of(world, "touch /shared/f && echo made", mounts=mounts) == ["made"]
    script = "stat -c %u /shared; ls /shared 2>/dev/null || echo refused"
    assert await output_of(world, script, "second", mounts=mounts) == ["65534", "refused"]


async def test_the_containers_of_a_pod_share_processes_and_memory(world: World) -> None:
    await world.pod("sharing", id_base=BASE, share_processes=True)
    first = await world.start("sharing", "first", command=("sleep", "1234"))
    script = "ps -o args | grep -c '[s]leep 1234'; kill -9 $(pidof sleep) && echo killed"
    assert await output_of(world, script, "sharing", "second") == ["1", "killed"]
    assert (await world.wait_exit(first.id)).exit_code == 137


def test_owners_are_shifted_once_with_what_their_change_clears(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    program, link, other = tmp_path / "d" / "program", tmp_path / "link", tmp_path / "other"
    program.parent.mkdir()
    for path in (program, other):
        path.write_text("x")
    os.chown(program, 7, 8)
    program.chmod(0o6755)
    # CAP_NET_RAW, effective: of VFS_CAP_REVISION_2
    os.setxattr(program, "security.capability", struct.pack("<IIIII", 0x02000001, 1 << 13, 0, 0, 0))
    link.symlink_to("/etc/passwd")
    os.chown(other, 70000, 70001)
    before = os.stat("/etc/passwd").st_uid
    for _ in range(2):
        shifted_owners.shift(str(tmp_path), BASE)
        owners = {path.name: (path.lstat().st_uid, path.lstat().st_gid) for path in (tmp_path, program, link, other)}
        assert owners == {
            tmp_path.name: (BASE, BASE),
            "program": (BASE + 7, BASE + 8),
            "link": (BASE, BASE),
            "other": (70000, 70001),
        }
        assert program.stat().st_mode & 0o7777 == 0o6755
        capability = os.getxattr(program, "security.capability")
        assert struct.unpack("<IIIIII", capability) == (0x03000001, 1 << 13, 0, 0, 0, BASE)
    assert os.stat("/etc/passwd").st_uid == before


async def test_sysctls_apply_to_the_pod(world: World) -> None:
    sysctls = {"net.ipv4.ip_local_port_range": "20000 30000", "kernel.shm_rmid_forced": "1"}
    await world.pod("tuned", id_base=BASE, sysctls=sysctls)
    script = "cat /proc/sys/net/ipv4/ip_local_port_range /proc/sys/kernel/shm_rmid_forced"
    found = await output_of(world, script, "tuned")
    assert [line.split() for line in found] == [["20000", "30000"], ["1"]]


@pytest.mark.parametrize("name", ["kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range"])
@pytest.mark.parametrize("value", ["1" * 100_000, "é"])
async def test_sysctls_of_one_pod_do_no_harm_to_others(world: World, name: str, value: str) -> None:
    with pytest.raises(RuntimeFailure, match=f"invalid value of the sysctl {name}"):
        await world.pod("untuned", id_base=BASE + POD_IDS, sysctls={name: value})
    assert await output_of(world, "echo here") == ["here"]


def test_the_zygote_is_sent_no_request_that_it_would_cut_off() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(20)
    with ours, theirs, pytest.raises(OSError, match="Message too long"):
        Zygote(ours).make_namespaces(BASE, POD_IDS, {"kernel/shm_rmid_forced": "1" * 100_000})
