"""Security contexts of containers, owners of their files, and paths that a pod changes while a container is set up."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import stat
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from bridgehead.images import archives
from bridgehead.images.store.content import ContentStore
from bridgehead.kubelet.runtimes.runtime import (
    ContainerInfo,
    ContainerSpec,
    Image,
    ImageUnavailable,
    Mount,
    RuntimeFailure,
    Seccomp,
    Security,
)
from tests.image_files import Entry, archive_of, busybox_entries, image_of, layer_of

from .runtime_world import DEADLINE, FIRST_ID, Node, World, enter_world, make_node, until

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with make_node("range") as node:
        yield node


@pytest.fixture
async def world(node: Node) -> AsyncIterator[World]:
    async with enter_world(node) as world:
        await world.pod("p")
        yield world


async def output_of(world: World, script: str, name: str = "c", **fields: object) -> list[str]:
    """The standard output of a script that is a container."""
    await world.run_to_end("p", script, name, **fields)
    return [line.removeprefix("stdout F ") for line in world.log("p", name) if line.startswith("stdout")]


def status(field: str) -> str:
    return f"grep {field}: /proc/self/status | cut -f2"


def volume(world: World, name: str) -> Path:
    """A directory that every container may write to, as an emptyDir."""
    path = world.directory / name
    path.mkdir()
    path.chmod(0o777)
    return path


DEFAULT = 0xA80425FB  # containerd's
NET_ADMIN, CHOWN = 1 << 12, 1 << 0


@pytest.mark.parametrize(
    ("security", "expected"),
    [
        (Security(), DEFAULT),
        (Security(add_capabilities=("NET_ADMIN",)), DEFAULT | NET_ADMIN),
        (Security(drop_capabilities=("CHOWN",)), DEFAULT & ~CHOWN),
        (Security(drop_capabilities=("ALL",)), 0),
        (Security(drop_capabilities=("ALL",), add_capabilities=("NET_ADMIN",)), NET_ADMIN),
        (Security(add_capabilities=("ALL",), drop_capabilities=("CHOWN",)), (1 << 41) - 1 & ~CHOWN),
        (Security(privileged=True), (1 << 41) - 1),
    ],
)
async def test_a_container_has_only_its_capabilities(world: World, security: Security, expected: int) -> None:
    lines = await output_of(world, f"{status('CapBnd')}; {status('CapEff')}; {status('CapInh')}", security=security)
    assert [int(line, 16) for line in lines] == [expected, expected, 0]


async def test_an_unknown_capability_is_refused(world: World) -> None:
    with pytest.raises(RuntimeFailure, match="unknown capability"):
        await world.start("p", security=Security(add_capabilities=("FLYING",)))


async def test_a_container_runs_as_its_user_and_groups(world: World) -> None:
    script = "id -u; id -g; id -G; " + status("CapEff")
    security = Security(user=1000, group=1001, supplemental_groups=(2000, 3000), drop_capabilities=("ALL",))
    assert await output_of(world, script, security=security) == ["1000", "1001", "1001 2000 3000", "0000000000000000"]
    assert await output_of(world, "id -u; id -g; echo $HOME", "root") == ["0", "0", "/root"]
    with pytest.raises(RuntimeFailure, match="cannot run as group 70000"):
        await world.start("p", "none", security=Security(supplemental_groups=(70000,)))


async def test_no_new_privileges_disables_set_user_id_programs(world: World) -> None:
    script = f"{status('NoNewPrivs')}; {status('Seccomp')}"
    assert await output_of(world, script, security=Security(no_new_privileges=True)) == ["1", "2"]
    assert await output_of(world, script, "may") == ["0", "2"]


async def test_seccomp_filters_system_calls(world: World) -> None:
    script = "unshare -U true 2>/dev/null && echo made; true"
    assert await output_of(world, script) == []
    assert await output_of(world, script, "u", security=Security(seccomp=Seccomp(kind="Unconfined"))) == ["made"]
    profile = world.directory / "profile.json"
    profile.write_text(
        '{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}]}'
    )
    local = Security(seccomp=Seccomp(kind="Localhost", path=str(profile)))
    assert await output_of(world, "mkdir /tmp/x || echo refused", "local", security=local) == ["refused"]
    profile.write_text("{}")
    with pytest.raises(RuntimeFailure, match="seccomp"):
        await world.start("p", "bad", security=local)


async def test_a_read_only_root_file_system_refuses_writes(world: World) -> None:
    data = volume(world, "data")
    directories = "/ /etc /usr /tmp /data /dev/shm"
    script = f"for d in {directories}; do touch $d/x 2>/dev/null && echo $d; done; echo bye >/dev/termination-log"
    mounts = (Mount(source=str(data), target="/data"),)
    assert await output_of(world, script, mounts=mounts, security=Security(read_only_root=True)) == [
        "/data",
        "/dev/shm",
    ]
    assert await output_of(world, script, "rw", mounts=mounts) == directories.split()


async def test_masked_paths_cannot_be_read(world: World) -> None:
    script = (
        "for f in /proc/kcore /proc/keys /proc/timer_list; do [ -e $f ] && wc -c <$f; done | sort -u; ls /sys/firmware;"
        " echo 1 >/proc/sys/kernel/domainname; echo b >/proc/sysrq-trigger; touch /sys/x; true"
    )
    assert set(await output_of(world, script)) <= {"0"}
    unmasked = await output_of(world, "wc -c </proc/timer_list 2>&1; true", "u", security=Security(unmasked_proc=True))
    assert unmasked != ["0"]


async def test_devices_and_set_user_id_have_no_effect_in_volumes(world: World) -> None:
    data = volume(world, "data")
    mounts = (Mount(source=str(data), target="/data"),)
    script = "mknod /data/null c 1 3 || echo refused; grep ' /data ' /proc/self/mounts | cut -d' ' -f4"
    refused, options = await output_of(world, script, mounts=mounts)
    assert refused == "refused"
    assert {"nosuid", "nodev"} <= set(options.split(","))


async def test_files_of_a_container_belong_to_no_user_of_the_machine(world: World) -> None:
    data = volume(world, "data")
    await world.run_to_end("p", "touch /data/x", mounts=(Mount(source=str(data), target="/data"),))
    assert (data / "x").stat().st_uid == FIRST_ID


async def test_host_namespaces_are_those_of_the_node(world: World) -> None:
    await world.pod("q", host_pid=True, host_ipc=True, host_network=True)
    info = await world.start("q", command=("sh", "-c", "sleep 4321 & exec sleep 1000"))
    assert "runtime" in await world.sh(info, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    own = await world.sh(info, "readlink /proc/self/ns/ipc")
    await world.client.signal_container(info.id, 9)
    await world.wait_exit(info.id)
    await world.until_no_process("sleep 4321")
    assert await output_of(world, "readlink /proc/self/ns/ipc") != [own.strip()]


async def test_the_containers_of_a_pod_share_64_mib_of_memory(world: World) -> None:
    assert await output_of(world, "echo shared >/dev/shm/x; ls /dev/shm", "writer") == ["x"]
    script = "cat /dev/shm/x; echo $(($(stat -f -c '%S * %b' /dev/shm)))"
    assert await output_of(world, script, "reader") == ["shared", str(64 << 20)]
    data = volume(world, "memory")
    await output_of(world, "touch /dev/shm/mine", "own", mounts=(Mount(source=str(data), target="/dev/shm"),))
    assert [path.name for path in data.iterdir()] == ["mine"]
    await world.pod("q")
    ended = await world.run_to_end("q", "test ! -e /dev/shm/x")
    assert ended.exit_code == 0
    directories = f"{world.node.directory}/root/shm"
    assert {"p", "q"} <= set(world.run("ls", directories).split())
    await world.client.remove_sandbox("q")
    assert "q" not in world.run("ls", directories).split()


COMMANDS = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"


async def test_a_container_shares_the_processes_of_another(world: World) -> None:
    app = await world.start("p", "app", command=("sleep", "1234"))
    debugger = await world.start("p", "debug", command=("sh", "-c", "sleep 4321 & exec sleep 1000"), target=app.id)
    assert "sleep 1234" in await world.sh(debugger, "cat /proc/1/cmdline | tr '\\0' ' '")
    other = await world.start("p", "other", command=("sleep", "1000"))
    assert "sleep 1234" not in await world.sh(other, COMMANDS)
    # The first process of the debugger is not the first of the namespace, and takes the others along nevertheless.
    await world.client.signal_container(debugger.id, 9)
    await world.wait_exit(debugger.id)
    await world.until_no_process("sleep 4321")
    assert "sleep 1234" in await world.sh(app, COMMANDS)
    again = await world.start("p", "again", command=("sleep", "1000"), target=app.id)
    await world.client.signal_container(app.id, 9)
    assert (await world.wait_exit(again.id)).exit_code == 137
    await world.wait_exit(app.id)  # the runtime may learn of this end later
    with pytest.raises(RuntimeFailure, match="container is not running"):
        await world.start("p", "late", command=("sleep", "1000"), target=app.id)


async def test_the_containers_of_a_pod_share_their_processes(world: World) -> None:
    await world.pod("q", share_processes=True)
    removed = ContainerSpec(pod_uid="q", name="none", attempt=0, image=Image(name="removed", id="", source="registry"))
    with pytest.raises(ImageUnavailable):  # found out when the processes that share the namespace are there
        await asyncio.wait_for(world.client.start_container(removed), 30)
    app = await world.start("q", "app", command=("sh", "-c", "(sleep 4321 &); exec sleep 1234"))
    other = await world.start("q", "other", command=("sleep", "1000"))
    shown = await world.sh(other, COMMANDS)
    assert all(one in shown for one in ("pause", "sleep 1234", "sleep 1000", "sleep 4321"))
    assert [one.name for one in await world.client.list_containers() if one.pod_uid == "q"] == ["app", "other"]
    await world.client.signal_container(app.id, 9)
    await world.wait_exit(app.id)

    async def has_gone() -> bool:
        return "4321" not in await world.sh(other, COMMANDS)

    await until(has_gone)
    restarted = await world.start("q", "app", attempt=1, command=("sleep", "1234"))
    assert "pause" in await world.sh(restarted, COMMANDS)
    await world.client.remove_sandbox("q")
    await world.until_no_process("pause")


async def test_sysctls_apply_to_the_pod_only(world: World) -> None:
    await world.pod("q", sysctls={"net.ipv4.ip_local_port_range": "20000 20099", "kernel.shm_rmid_forced": "1"})
    info = await world.start("q", command=("sleep", "1000"))
    found = await world.sh(info, "cat /proc/sys/net/ipv4/ip_local_port_range /proc/sys/kernel/shm_rmid_forced")
    assert found.split() == ["20000", "20099", "1"]
    assert await output_of(world, "cat /proc/sys/net/ipv4/ip_local_port_range") != ["20000\t20099"]
    with pytest.raises(RuntimeFailure):
        await world.pod("r", sysctls={"no.such": "1"})


def read_memory(world: World, pid: int) -> bytes:
    """All of a container's first process, as the machine's root sees it; `pid` is the node's."""
    for status in Path("/proc").glob("[0-9]*/status"):
        numbers = next((line.split()[1:] for line in read(status).splitlines() if line.startswith("NSpid:")), [])
        if numbers[1:] == [str(pid), "1"] and str(world.node.directory) in read(status.parent / "mountinfo"):
            break
    else:
        raise AssertionError(f"no process {pid} on the node")
    contents = []
    with open(status.parent / "maps") as maps, open(status.parent / "mem", "rb", 0) as memory:
        for line in maps:
            span, rights = line.split()[:2]
            if rights.startswith("rw"):
                first, last = (int(word, 16) for word in span.split("-"))
                memory.seek(first)
                contents.append(memory.read(last - first))
    return b"".join(contents)


def read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # it has just ended
        return ""


async def test_a_built_in_server_holds_no_secrets_and_its_memory_is_not_readable(world: World) -> None:
    await world.start("p", "other", command=("sleep", "1000"), env={"PASSWORD": "of-another-pod"})
    server = await world.start("p", "web", image="nginx", env={"PASSWORD": "this-is-its-own"})
    memory = read_memory(world, server.pid)
    assert b"this-is-its-own" in memory
    assert b"of-another-pod" not in memory
    for file in ("mem", "environ", "maps", "root/", "fd/0", "exe"):
        result = await world.client.exec_in_container(server.id, ("head", "-c1", f"/proc/1/{file}"), timeout=DEADLINE)
        assert result.exit_code != 0, file


TRACE = """
import ctypes, os, pathlib
libc = ctypes.CDLL(None)
while True:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            comm = pathlib.Path("/proc", pid, "comm").read_text()
            if comm == "sleep\\n" and libc.ptrace(0x4206, int(pid), None, None) == 0:  # PTRACE_SEIZE
                print(pid, flush=True)
        except OSError:  # the process has ended
            pass
"""


async def test_a_traced_process_does_not_block_the_runtime(world: World) -> None:
    """An exited traced process is reaped by its tracer first: the runtime must not block for it."""
    script = world.directory / "trace.py"
    script.write_text(TRACE)
    tracer = await world.start(
        "p", "tracer", command=("python3", "/trace.py"), mounts=(Mount(source=str(script), target="/trace.py"),)
    )
    other = await world.start("p", "other", command=("tail", "-f", "/dev/null"))
    traced = asyncio.create_task(world.client.exec_in_container(tracer.id, ("sleep", "1"), timeout=0))

    async def has_ended() -> bool:
        return bool(world.log("p", "tracer")) and "sleep" not in await world.sh(tracer, "cat /proc/[0-9]*/cmdline")

    await until(has_ended)
    assert await world.sh(other, "echo here") == "here\n"
    assert not traced.done()
    await world.client.signal_container(tracer.id, signal.SIGKILL)
    assert (await traced).exit_code == 0


async def test_no_descriptors_are_inherited(world: World) -> None:
    script = "for f in /proc/self/fd/*; do readlink $f || true; done"
    lines = await output_of(world, script)
    assert [line.split(":")[0] for line in lines] == ["/dev/null", "pipe", "pipe"]
    info = await world.start("p", "long", command=("sleep", "1000"))
    result = await world.sh(info, script)
    assert [line.split(":")[0] for line in result.split()] == ["/dev/null", "pipe", "pipe"]


# Paths.


async def test_sub_paths_are_mounted(world: World) -> None:
    data = volume(world, "data")
    (data / "dir").mkdir()
    (data / "file").write_text("a file\n")
    (data / "inner").symlink_to("dir")
    (data / "dir" / "x").write_text("in dir\n")

    def mount(sub_path: str) -> tuple[Mount, ...]:
        return (Mount(source=str(data), target="/m", sub_path=sub_path),)

    assert await output_of(world, "cat /m", "file", mounts=mount("file")) == ["a file"]
    assert await output_of(world, "cat /m/x", "inner", mounts=mount("inner")) == ["in dir"]
    assert await output_of(world, "touch /m/y && echo made", "new", mounts=mount("new/deep")) == ["made"]
    assert stat.S_IMODE((data / "new" / "deep").stat().st_mode) == 0o777


@pytest.mark.parametrize("target", ["/etc", "..", "../../../../../root", "dir/../../x", "/proc/self/root/etc"])
async def test_a_sub_path_that_leaves_the_volume_is_refused(world: World, target: str) -> None:
    data = volume(world, "data")
    (data / "dir").mkdir()
    (data / "link").symlink_to(target)
    for sub_path in ("link", "link/passwd", "link/new/directory"):
        with pytest.raises(RuntimeFailure, match="out of the volume"):
            await world.start("p", mounts=(Mount(source=str(data), target="/m", sub_path=sub_path),))


SWAP = """
import ctypes, sys
libc = ctypes.CDLL(None)
one, other = sys.argv[1].encode(), sys.argv[2].encode()
print("begun", flush=True)
while True:
    libc.renameat2(-100, one, -100, other, 2)  # RENAME_EXCHANGE
"""


async def swap(world: World, data: Path, one: str, other: str) -> ContainerInfo:
    """A container that exchanges two entries of a volume all the time."""
    (world.directory / "swap.py").write_text(SWAP)
    mounts = (
        Mount(source=str(data), target="/data"),
        Mount(source=str(world.directory / "swap.py"), target="/swap.py"),
    )
    return await world.start(
        "p", "swap", command=("python3", "/swap.py", f"/data/{one}", f"/data/{other}"), mounts=mounts
    )


@pytest.mark.parametrize("sub_path", ["a", "a/below"])
async def test_a_sub_path_replaced_by_a_link_is_not_followed(world: World, sub_path: str) -> None:
    data = volume(world, "data")
    (data / "a" / "below").mkdir(parents=True)
    (data / "b").symlink_to("/")
    for path in (data / "a", data / "a" / "below", data):
        os.chown(path, FIRST_ID, FIRST_ID)
    await swap(world, data, "a", "b")
    started = 0
    for attempt in range(40):
        mounts = (Mount(source=str(data), target="/m", sub_path=sub_path),)
        try:
            await world.run_to_end("p", "ls /m", "victim", attempt=attempt, mounts=mounts)
            started += 1
        except RuntimeFailure as error:
            assert "out of the volume" in str(error)  # noqa: PT017 - either is fine, and nothing else
    seen = set(world.log("p", "victim")) if started else set()
    assert not {"stdout F root", "stdout F etc"} & seen


async def test_a_mount_point_replaced_by_a_link_stays_in_the_containers_root(
    world: World, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Mount points below a writable volume are created in the container's root whatever the link names."""
    data, other = volume(world, "data"), volume(world, "other")
    outside = volume(world, "outside")
    (data / "a").mkdir()
    (data / "b").symlink_to(outside)
    for path in (data / "a", data):
        os.chown(path, FIRST_ID, FIRST_ID)
    await swap(world, data, "a", "b")
    for attempt in range(40):
        mounts = (
            Mount(source=str(data), target="/m"),
            Mount(source=str(other), target=f"/m/a/made-{attempt}"),
        )
        try:
            await world.run_to_end(
                "p", "true", "victim", attempt=attempt, mounts=mounts, termination_message_path=f"/m/a/log-{attempt}"
            )
        except RuntimeFailure as error:
            assert "failed to create mount point" in str(error) or "failed to mount" in str(error)  # noqa: PT017
    assert list(outside.iterdir()) == []


async def test_links_of_an_image_are_resolved_inside_the_image(world: World) -> None:
    """The image's directories are links to the outside; files, mount points and working directory stay inside."""
    outside = volume(world, "outside")
    rootfs = world.images / "evil" / "rootfs"
    rootfs.mkdir(parents=True)
    for name in ("bin", "lib", "lib64", "usr", "sbin"):
        source = Path("/") / name
        if source.is_symlink():
            (rootfs / name).symlink_to(os.readlink(source))
        elif source.is_dir():
            (rootfs / name).mkdir()
    (rootfs / "etc").symlink_to(outside)
    (rootfs / "proc").symlink_to(outside)
    (rootfs / "work").symlink_to(f"../../../../..{outside}")
    mounts = (
        Mount(source="/usr", target="/usr", read_only=True),
        Mount(source=str(volume(world, "data")), target="/work/data"),
    )
    script = "pwd; ls /proc/1/status"
    found = await output_of(
        world, script, image="evil", mounts=mounts, working_dir="/work", termination_message_path="/work/log"
    )
    assert found == [str(outside), "/proc/1/status"]
    assert list(outside.iterdir()) == []


async def test_the_user_of_a_container_opens_its_streams_by_name(world: World) -> None:
    """Images do so whose log files are links to /dev/stdout."""
    script = 'echo one >/dev/stdout; echo two >/dev/stderr; grep -c " /dev/mqueue mqueue " /proc/mounts'
    ended = await world.run_to_end("p", script, security=Security(user=1000))
    assert ended.exit_code == 0
    assert sorted(world.log("p")) == ["stderr F two", "stdout F 1", "stdout F one"]
    running = await world.start("p", "two", command=("sleep", "1000"), security=Security(user=1000))
    assert await world.sh(running, "echo three >/dev/stdout") == "three\n"


async def test_what_no_container_can_have_is_refused_with_the_reason(world: World) -> None:
    data = str(volume(world, "data"))
    for fields, message in (
        ({"mounts": (Mount(source=data, target="/proc/sys"),)}, "inside"),
        ({"mounts": (Mount(source=data, target="/usr/.."),)}, 'failed to mount at "/usr/..": it is the root directory'),
        ({"working_dir": "/etc/passwd"}, 'cannot enter the working directory "/etc/passwd": Not a directory'),
    ):
        with pytest.raises(RuntimeFailure, match=message):
            await world.start("p", **fields)


IMAGE = "registry.example/volumes:1"


@pytest.fixture(scope="module")
def image_with_volumes(node: Node) -> str:
    """An image of two layers, with volumes and with directories of user 7."""
    owned: dict[str, Any] = {"uid": FIRST_ID + 7, "gid": FIRST_ID + 8, "mode": 0o750}
    entries: list[tuple[str, Entry]] = [
        ("data", {"type": b"5", **owned}),
        ("home", {"type": b"5", **owned}),
        ("data/file", owned),
    ]
    layers = (
        layer_of([*busybox_entries("sh", "ls", "stat", "touch"), ("data/old", "1"), ("real/deep/x", "2")]),
        layer_of([*entries, ("data/.wh.old", ""), ("link", {"type": b"2", "linkname": "/real"})]),
    )
    volumes: dict[str, object] = {"/data": {}, "/link/deep": {}, "/new": {}, "/taken": {}}
    image = image_of(*layers, Entrypoint=["sh", "-c"], Volumes=volumes)
    store = ContentStore(node.directory / "content")
    store.root.mkdir(exist_ok=True)
    archives.load(store, io.BytesIO(archive_of(IMAGE, image)))
    return IMAGE


async def test_the_volumes_of_an_image_are_directories_filled_from_it(world: World, image_with_volumes: str) -> None:
    directory = volume(world, "volumes")
    mine = volume(world, "mine")
    script = (
        "stat -c '%u %g %a' /data /data/file; ls /data /real/deep;"
        " touch /data/a /real/deep/a /new/a /taken/a && ls /new; touch /b 2>/dev/null || echo read-only"
    )
    for name in ("one", "two"):  # the second finds what is left of the first, and begins anew
        found = await output_of(
            world,
            script,
            name,
            image=image_with_volumes,
            volume_directory=str(directory),
            mounts=(Mount(source=str(mine), target="/taken"),),
            security=Security(read_only_root=True),
        )
        assert found == ["7 8 750", "7 8 750", "/data:", "file", "", "/real/deep:", "x", "a", "read-only"]
    assert sorted(path.name for path in directory.iterdir()) == ["0", "1", "2"]
    assert [path.name for path in mine.iterdir()] == ["a"]


async def test_a_mount_leaves_the_directories_above_to_their_owners(world: World, image_with_volumes: str) -> None:
    mounts = (Mount(source=str(volume(world, "mine")), target="/home/in/it"),)
    found = await output_of(world, "stat -c '%u %g %a' /home /home/in", image=image_with_volumes, mounts=mounts)
    assert found == ["7 8 750", "0 0 755"]
