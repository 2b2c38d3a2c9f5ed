"""The container runtime against the real kernel, in namespaces that each test's node made for itself."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import tarfile
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from bridgehead.images import archives
from bridgehead.images.store import garbage_collection
from bridgehead.images.store.content import ContentStore
from bridgehead.kubelet.runtimes.runtime import (
    ContainerInfo,
    ContainerRefused,
    ImageUnavailable,
    Mount,
    RuntimeFailure,
    Security,
)
from bridgehead.kubelet.runtimes.wire.client import RemoteSession, RuntimeClient
from bridgehead.objects.core import LinuxContainerUser
from tests import tools
from tests.image_files import archive_of, busybox_entries, image_of, layer_of

from .runtime_world import DEADLINE, NODE_ADDRESS, Node, World, enter_world, make_node, until

pytestmark = pytest.mark.integration

POD_TEST = "registry.cn-beijing.aliyuncs.com/wangxiaochun/pod-test:v0.1"


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with make_node("user") as made:
        yield made


@pytest.fixture
async def world(node: Node) -> AsyncIterator[World]:
    """A node that many tests use, one after the other; each leaves it empty."""
    async with enter_world(node) as made:
        yield made


@pytest.fixture
async def fresh_world() -> AsyncIterator[World]:
    """A node whose runtime may be hurt."""
    with make_node("user") as node:
        async with enter_world(node) as made:
            yield made


@pytest.mark.parametrize("mode", ["user", "root", "nobody", "container"])
async def test_a_pod_is_created_started_stopped_and_removed(mode: str) -> None:
    with make_node(mode) as node:
        async with enter_world(node) as world:
            await live(world)


async def live(world: World) -> None:
    links = world.run("ip", "-o", "link")
    ip = await world.pod("web-0")
    server = await world.start("web-0", "web", image=POD_TEST)
    assert (server.state, server.attempt, server.image.source) == ("running", 0, "stand-in")
    await world.wait_port("web-0", 80)

    answer = world.run("curl", "-s", f"http://{ip}/")
    assert answer == f"kubernetes pod-test v0.1!! ClientIP: {NODE_ADDRESS}, ServerName: web-0, ServerIP: {ip}!\n"
    # The containers of a pod share its network and its name, not their processes and files.
    other = await world.start("web-0", "other", command=("sh", "-c", "touch /here; echo $$; exec sleep 1000"))
    await until(lambda: _same("\n".join(world.log("web-0", "other")), "stdout F 1"))
    assert "ServerName: web-0" in await world.sh(other, "curl -s localhost")
    assert await world.sh(other, "hostname; ls /here") == "web-0\n/here\n"
    assert await world.sh(server, "ls /here 2>&1 || true") != "/here\n"

    await world.client.signal_container(server.id, signal.SIGTERM)
    ended = await world.wait_exit(server.id)
    assert (ended.exit_code, ended.pid) == (0, 0)
    assert ended.finished_at is not None
    assert ended.finished_at >= ended.started_at

    await world.client.remove_sandbox("web-0")
    await world.client.remove_sandbox("web-0")
    assert await world.client.list_containers() == []
    assert await world.client.list_sandboxes() == []
    await until(lambda: _same(world.run("ip", "-o", "link"), links))
    assert ip not in world.run("ip", "route")
    assert str(world.directory) not in world.run("cat", "/proc/self/mounts")
    assert "sleep 1000" not in world.run("ps", "ax")


async def _same(one: str, other: str) -> bool:
    return one == other


async def test_exit_codes_are_reported(world: World) -> None:
    await world.pod("p")
    assert (await world.run_to_end("p", "exit 3", "code")).exit_code == 3
    killed = await world.start("p", "killed", command=("sleep", "1000"))
    await world.client.signal_container(killed.id, signal.SIGKILL)
    ended = await world.wait_exit(killed.id)
    assert ended.exit_code == 137
    await world.client.signal_container(killed.id, signal.SIGKILL)
    # As in any container, a first process that handles no signal is not ended by one from inside.
    assert (await world.run_to_end("p", "kill -TERM $$; echo still here", "inside")).exit_code == 0
    assert world.log("p", "inside") == ["stdout F still here"]


async def test_all_processes_of_a_container_end_with_its_first_process(world: World) -> None:
    await world.pod("p")
    await world.run_to_end("p", "sleep 7777 & sleep 8888 & exit 0")
    assert not re.search("sleep (7777|8888)", world.run("ps", "ax"))


async def test_exits_are_published(world: World) -> None:
    exits = world.client.exits()
    exit_event = asyncio.ensure_future(anext(exits))
    await world.pod("p")
    await asyncio.sleep(0)
    container = await world.start("p", command=("sh", "-c", "exit 5"))
    async with asyncio.timeout(DEADLINE):
        exited = await exit_event
    assert (exited.id, exited.exit_code) == (container.id, 5)
    assert isinstance(exits, AsyncGenerator)
    await exits.aclose()


async def test_a_restarted_kubelet_finds_its_containers(world: World) -> None:
    await world.pod("p")
    running = await world.start("p", command=("sleep", "1000"))
    await world.run_to_end("p", "exit 4", "done")
    async with RuntimeClient(str(world.socket_path)) as other:
        found = {container.name: container for container in await other.list_containers()}
        assert found["c"] == running
        assert found["done"].exit_code == 4
        assert [sandbox.pod_uid for sandbox in await other.list_sandboxes()] == ["p"]
        # Asked again for what it did before it forgot, the runtime does not do it twice.
        assert (await world.start("p", command=("sleep", "1000"))).id == running.id


@pytest.mark.parametrize("share_processes", [False, True])
async def test_a_start_that_is_asked_for_twice_happens_once(world: World, share_processes: bool) -> None:
    """A kubelet may start while the runtime does what an earlier kubelet asked for."""
    await world.pod("p", share_processes=share_processes)
    started = await asyncio.gather(*(world.start("p", command=("sleep", "1000")) for _ in range(3)))
    assert [container.id for container in await world.client.list_containers()] == [started[0].id]
    assert {container.id for container in started} == {started[0].id}
    failed = await asyncio.gather(
        *(world.start("p", "absent", command=("nosuch",)) for _ in range(3)), return_exceptions=True
    )
    assert [type(failure) for failure in failed] == [RuntimeFailure] * 3


async def test_only_the_newest_attempt_is_kept(world: World) -> None:
    await world.pod("p")
    for attempt in range(3):
        await world.run_to_end("p", f"exit {attempt}", attempt=attempt)
    assert [(c.attempt, c.exit_code) for c in await world.client.list_containers()] == [(2, 2)]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"command": ("nosuch",)}, 'exec: "nosuch": executable file not found in $PATH'),
        ({"command": ("/no/such",)}, 'exec: "/no/such": stat /no/such: no such file or directory'),
        ({"command": ("/etc",)}, 'exec: "/etc": is a directory'),
        ({"command": ("/etc/passwd",)}, 'exec: "/etc/passwd": permission denied'),
        (
            {"security": Security(user=1234)},
            "cannot run as user 1234: the cluster runs in a user namespace that has no such id",
        ),
        ({"mounts": (Mount(source="/no/such", target="/x"),)}, 'failed to mount "/no/such": No such file or directory'),
    ],
)
async def test_containers_that_cannot_start_give_a_reason(world: World, fields: dict[str, Any], message: str) -> None:
    await world.pod("p")
    with pytest.raises(RuntimeFailure) as caught:
        await world.start("p", **fields)
    assert message in str(caught.value)
    assert await world.client.list_containers() == []
    with pytest.raises(RuntimeFailure, match="no sandbox"):
        await world.start("nobody")


async def test_unavailable_images_give_a_reason(world: World) -> None:
    with pytest.raises(ImageUnavailable, match=r"example\.com/app:1 not found"):
        await world.client.find_image("example.com/app:1")


async def test_logs_have_timestamps_and_streams(world: World) -> None:
    await world.pod("p")
    await world.run_to_end("p", "echo out; echo err >&2; printf 'no newline'")
    assert sorted(world.log("p")) == ["stderr F err", "stdout F out", "stdout P no newline"]
    text = world.log_path("p", "c").read_text()
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z std", text)
    # More than a pipe holds, and the exit right behind it.
    await world.run_to_end("p", "seq 1 50000", "much")
    assert world.log("p", "much") == [f"stdout F {number}" for number in range(1, 50001)]


async def test_the_termination_message_is_read_from_its_path(world: World) -> None:
    await world.pod("p")
    ended = await world.run_to_end("p", "echo last words >/dev/termination-log; exit 1")
    assert (ended.exit_code, ended.message) == (1, "last words\n")
    ended = await world.run_to_end("p", "seq 1 10000 >/dev/termination-log", "long")
    assert len(ended.message) == 4096


async def test_a_container_has_its_environment(world: World) -> None:
    await world.pod("p")
    script = "echo $HOME $HOSTNAME $A; pwd; cat /etc/hostname; id -u; readlink /proc/1/fd/0"
    await world.run_to_end("p", script, env={"A": "b"}, working_dir="/made/for/me")
    assert world.log("p") == [
        "stdout F /root p b",
        "stdout F /made/for/me",
        "stdout F p",
        "stdout F 0",
        "stdout F /dev/null",
    ]
    await world.run_to_end("p", "env | grep -c BRIDGEHEAD_TEST; true", "inherited")
    assert world.log("p", "inherited") == ["stdout F 0"]


async def test_a_container_has_its_mounts(world: World) -> None:
    volume, secret, file = world.directory / "volume", world.directory / "secret", world.directory / "file"
    for directory in (volume, secret):
        directory.mkdir()
    (secret / "token").write_text("t0k3n\n")
    file.write_text("10.1.2.3 example\n")
    await world.pod("p")
    mounts = (
        Mount(source=str(secret), target="/var/run/secrets/kubernetes.io/serviceaccount", read_only=True),
        Mount(source=str(volume), target="/data"),
        Mount(source=str(secret), target="/data/inner/secret", read_only=True),
        Mount(source=str(file), target="/etc/hosts"),
        Mount(source=str(volume), target="/usr/share/nginx/html"),
    )
    script = """
        cat /run/secrets/kubernetes.io/serviceaccount/token /data/inner/secret/token /etc/hosts
        echo written > /data/file; cat /usr/share/nginx/html/file
        touch /data/inner/secret/x 2>/dev/null || echo read-only
    """
    await world.run_to_end("p", script, mounts=mounts)
    assert [line.removeprefix("stdout F ") for line in world.log("p")] == [
        *("t0k3n", "t0k3n", "10.1.2.3 example", "written", "read-only")
    ]
    assert (volume / "file").read_text() == "written\n"
    assert not (secret / "x").exists()


async def test_a_container_has_a_root_file_system_of_its_own(world: World) -> None:
    """Other processes do not see a container's writes; the container sees only the host's system directories."""
    await world.pod("p")
    writes = "echo x > /usr/share/message; echo x > /etc/message; echo x > /tmp/message; cat /usr/share/message"
    await world.run_to_end("p", writes, "one")
    assert world.log("p", "one") == ["stdout F x"]
    assert world.run("sh", "-c", "ls /usr/share/message /etc/message /tmp/message 2>/dev/null || echo none") == "none\n"
    await world.run_to_end("p", f"ls {world.directory} /usr/share/message /tmp 2>/dev/null; ls /home | wc -l", "two")
    assert world.log("p", "two") == ["stdout F /tmp:", "stdout F 0"]
    # The interpreter of built-in programs is at no path that a reader of `ls /` would see.
    shown = {"bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc", "opt", "nix", "gnu", "dev", "proc", "sys"}
    await world.run_to_end("p", "ls /", "top")
    top = {line.removeprefix("stdout F ") for line in world.log("p", "top")}
    assert top - shown == {"tmp", "run", "root", "home", "media", "mnt", "srv", "var"}
    await world.run_to_end("p", "echo 1 > /proc/sys/net/ipv4/ip_forward || echo refused", "three")
    assert "stdout F refused" in world.log("p", "three")


async def receive_all(stream: socket.socket) -> bytes:
    """Receive until the other side ends the connection."""
    loop = asyncio.get_running_loop()
    data = b""
    async with asyncio.timeout(DEADLINE):
        while chunk := await loop.sock_recv(stream, 65536):
            data += chunk
    return data


def put_busybox_image(directory: Path) -> set[str]:
    """An image with nothing but BusyBox in it, and the libraries that this machine's is linked with; what is in `/`."""
    tools.require("busybox")
    busybox = shutil.which("busybox")
    assert busybox is not None
    rootfs = directory / "rootfs"
    (rootfs / "bin").mkdir(parents=True)
    shutil.copy(busybox, rootfs / "bin" / "busybox")
    linked = subprocess.run(["ldd", busybox], capture_output=True, text=True, check=False).stdout  # none: it is static
    for library in re.findall(r"(/\S+) \(0x", linked):
        target = rootfs / library.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, target)
    config = '{"Entrypoint": ["busybox", "sh", "-c"], "Cmd": ["busybox ls /"], "Env": ["GREETING=hi"]}'
    (directory / "image.json").write_text(config)
    return {path.name for path in rootfs.iterdir()}


async def test_an_image_of_the_store_has_its_root_file_system(world: World) -> None:
    image = world.images / "example.com" / "tool:1"
    brought = put_busybox_image(image)
    await world.pod("p")
    ended = await world.wait_exit((await world.start("p", image="example.com/tool:1")).id)
    assert (ended.exit_code, ended.image.source) == (0, "store")
    assert world.log("p") == [f"stdout F {name}" for name in sorted({*brought, "dev", "proc", "sys"})]
    mounts = (Mount(source=str(image), target="/a/b"),)
    script = ("echo $GREETING >/greeting; busybox cat /greeting; busybox ls /a/b; busybox ls /dev/null",)
    second = await world.start("p", "two", image="example.com/tool:1", args=script, mounts=mounts)
    assert (await world.wait_exit(second.id)).exit_code == 0
    assert world.log("p", "two") == [f"stdout F {text}" for text in ("hi", "image.json", "rootfs", "/dev/null")]
    assert {path.name for path in (image / "rootfs").iterdir()} == brought


async def test_an_image_of_layers_runs_as_its_configuration_asks(world: World) -> None:
    programs = busybox_entries("sh", "cat", "ls", "id", "mkdir", "rm", "stat")
    open_to_all = {"type": tarfile.DIRTYPE, "mode": 0o1777}
    layers = (
        layer_of([*programs, ("etc/old", "1"), ("data/a/x", "1"), ("open/", open_to_all)]),
        layer_of([("etc/.wh.old", ""), ("data/.wh..wh..opq", ""), ("data/b", "2")]),
        layer_of(
            [("etc/passwd", "app:x:7:8::/home/app:/bin/sh\n"), ("run/now", ""), ("data/c", "3"), ("open/now", "")],
            "zstd",
        ),
    )
    empty = layer_of([])  # of steps that change nothing, as WORKDIR; images often have several
    image = image_of(
        layers[0],
        empty,
        layers[1],
        empty,
        layers[2],
        Entrypoint=["sh", "-c"],
        Cmd=["ls /etc /data; stat -c %a /open"],
        StopSignal="SIGUSR1",
        Env=["A=1"],
    )
    store = ContentStore(world.node.directory / "content")
    store.root.mkdir(exist_ok=True)
    [record] = archives.load(store, io.BytesIO(archive_of("registry.example/app:1", image)))
    await world.pod("p")
    ended = await world.wait_exit((await world.start("p", image="registry.example/app:1")).id)
    assert (ended.exit_code, ended.image.source, ended.image.id) == (0, "registry", record.id)
    assert world.log("p") == [f"stdout F {name}" for name in ("/data:", "b", "c", "", "/etc:", "passwd", "1777")]
    archives.load(store, io.BytesIO(archive_of("registry.example/app:2", image_of(*layers, User="ghost"))))
    with pytest.raises(ContainerRefused, match="unable to find user ghost: no matching entries in passwd file"):
        await world.start("p", "ghost", image="registry.example/app:2")
    # Opaque directories have to work in the container's own layer, too.
    change = ("rm -r /data && mkdir /data && ls -a /data && cat /etc/old; echo $A",)
    changed = await world.start("p", "two", image="registry.example/app:1", args=change)
    assert (await world.wait_exit(changed.id)).exit_code == 0
    missing = "stderr F cat: can't open '/etc/old': No such file or directory"
    assert sorted(world.log("p", "two")) == [missing, "stdout F .", "stdout F ..", "stdout F 1"]
    wait = ("trap 'exit 9' USR1; echo ready; while :; do read -t 1 line </dev/zero; done",)
    waiting = await world.start("p", "three", image="registry.example/app:1", args=wait)

    async def is_waiting() -> bool:
        return world.log("p", "three") == ["stdout F ready"]

    await until(is_waiting)
    await world.client.signal_container(waiting.id, signal.SIGTERM)
    assert (await world.wait_exit(waiting.id)).exit_code == 9


async def test_the_files_of_an_image_are_a_volume(world: World) -> None:
    """Images have one layer or several; their volumes are read-only, also those of a directory; one layer serves all
    containers."""
    store = ContentStore(world.node.directory / "content")
    store.root.mkdir(exist_ok=True)
    layers = (layer_of([("a/x", "1"), ("a/y", "2\n")]), layer_of([("a/.wh.x", ""), ("b", "3")]))
    for name, chosen in (("files.example/one:1", layers[:1]), ("files.example/two:1", layers)):
        archives.load(store, io.BytesIO(archive_of(name, image_of(*chosen))))
    await world.pod("p")
    mounts = (
        Mount(source="", target="/one", image="files.example/one:1", read_only=True),
        Mount(source="", target="/two", image="files.example/two:1", read_only=True),
        Mount(source="", target="/sub", image="files.example/two:1", read_only=True, sub_path="a"),
    )
    script = "ls /one/a /two/a /two /sub; cat /sub/y; for d in one two sub; do touch /$d/new || true; done"
    ended = await world.run_to_end("p", script, mounts=mounts)
    assert ended.exit_code == 0
    lines = [line.removeprefix("stdout F ") for line in world.log("p") if line.startswith("stdout")]
    assert lines == ["/one/a:", "x", "y", "", "/sub:", "y", "", "/two:", "a", "b", "", "/two/a:", "y", "2"]
    assert sum("Read-only file system" in line for line in world.log("p")) == 3
    with pytest.raises(RuntimeFailure, match='image "nginx" has no files to mount: bridgehead-stand-in://nginx:latest'):
        await world.start("p", "wrong", mounts=(Mount(source="", target="/m", image="nginx", read_only=True),))
    missing = Mount(source="", target="/m", image="files.example/one:1", read_only=True, sub_path="none")
    with pytest.raises(ContainerRefused, match='failed to prepare subPath "none" of "/m": No such file or directory'):
        await world.start("p", "missing", mounts=(missing,))
    # Layers stay until the containers that used them are removed, whatever names images have.
    for name in ("files.example/one:1", "files.example/two:1"):
        assert store.remove_record(name)
    paths = [store.layer_path(layer.diff_id) for layer in layers]
    garbage_collection.collect(store)
    assert [path.exists() for path in paths] == [True, True]
    for sandbox in await world.client.list_sandboxes():
        await world.client.remove_sandbox(sandbox.pod_uid)
    garbage_collection.collect(store)
    assert [path.exists() for path in paths] == [False, False]


async def test_the_layers_of_containers_are_measured(world: World) -> None:
    """Containers with the host's programs and those with an image have a layer; a volume does not count."""
    volume = world.directory / "volume"
    volume.mkdir()
    put_busybox_image(world.images / "example.com" / "tool:1")
    await world.pod("p")
    script = (
        "busybox dd if=/dev/zero of=/volume/x bs=1M count=9; busybox dd if=/dev/zero of=/x bs=1M count=3; echo ok; "
    )
    mounts = (Mount(source=str(volume), target="/volume"),)
    await world.start("p", "host", command=("sh", "-c", f"{script} sleep 2000"), mounts=mounts)
    await world.start("p", "own", image="example.com/tool:1", args=(f"{script} busybox sleep 2000",), mounts=mounts)
    for name in ("host", "own"):

        async def has_written(name: str = name) -> bool:
            return "stdout F ok" in world.log("p", name)

        await until(has_written)
    measured = await world.client.measure_layers("p")
    assert measured.keys() == {"host", "own"}
    assert all(3 << 20 <= size < 5 << 20 for size in measured.values())
    assert await world.client.measure_layers("none") == {}


async def test_a_host_network_container_uses_the_hosts_network(world: World) -> None:
    await world.pod("node-agent", host_network=True)
    [sandbox] = await world.client.list_sandboxes()
    assert (sandbox.ips, sandbox.netns) == ((), "")
    await world.run_to_end("node-agent", "ip -o -4 addr show dev lo; hostname")
    assert f"inet {NODE_ADDRESS}/32" in world.log("node-agent")[1]
    assert world.log("node-agent")[2] == "stdout F node-agent"


async def test_pods_reach_each_other_and_themselves(world: World) -> None:
    world.run("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
    one, two = await world.pod("one"), await world.pod("two")
    await world.start("one", image=POD_TEST)
    client = await world.start("two", image="nginx")
    for pod in ("one", "two"):
        await world.wait_port(pod, 80)
    assert f"ClientIP: {two}, ServerName: one" in await world.sh(client, f"curl -s {one}")
    assert "Welcome to nginx!" in await world.sh(client, f"curl -s {two}")
    stream = await world.client.open_port("one", 80)
    with stream:
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(stream, b"GET / HTTP/1.0\r\n\r\n")
        assert b"ClientIP: 127.0.0.1" in await receive_all(stream)
    with pytest.raises(RuntimeFailure, match="connection refused"):
        await world.client.open_port("one", 81)


@pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="this kernel has no IPv6")
async def test_pods_have_addresses_of_both_families(world: World) -> None:
    world.run("sh", "-c", "echo 1 >/proc/sys/net/ipv6/conf/all/forwarding")
    one, two = "fd00:10:244:1::1", "fd00:10:244:1::2"
    await world.pod("one", also=(one,))
    await world.pod("two", also=(two,))
    assert [sandbox.ips[1] for sandbox in await world.client.list_sandboxes()] == [one, two]
    await world.start("one", image=POD_TEST)
    client = await world.start("two", image="nginx")
    for pod in ("one", "two"):
        await world.wait_port(pod, 80)
    assert f"ClientIP: {two}, ServerName: one, ServerIP: {one}" in await world.sh(client, f"curl -sg [{one}]")
    assert "Welcome to nginx!" in await world.sh(client, f"curl -sg [{two}]")
    # The link has no other node, so it needs no search for duplicates: no tentative address, none of the link's own.
    addresses = await world.sh(client, "ip -6 -o addr show dev eth0")
    assert f"inet6 {two}/128 scope global" in addresses
    assert len(addresses.splitlines()) == 1
    assert "tentative" not in addresses
    assert "default via fe80::1 dev eth0" in await world.sh(client, "ip -6 route")
    # A server on the IPv6 loopback alone is found, too, as containerd does it.
    await world.start("two", "six", command=("busybox", "httpd", "-f", "-p", "[::1]:81"))
    await world.wait_port("two", 81)
    with pytest.raises(RuntimeFailure, match=r"IPv4: dial tcp4 127.0.0.1:82: .* refused IPv6 dial tcp6 \[::1\]:82: .*"):
        await world.client.open_port("two", 82)
    assert two in world.run("ip", "-6", "route")
    await world.client.remove_sandbox("two")
    assert two not in world.run("ip", "-6", "route")
    assert one in world.run("ip", "-6", "route")


async def test_exec_runs_a_command_in_a_container(world: World) -> None:
    await world.pod("p")
    container = await world.start("p", env={"A": "b"}, command=("sleep", "1000"))
    client = world.client
    result = await client.exec_in_container(container.id, ("sh", "-c", "echo $A; echo e >&2; exit 7"), timeout=DEADLINE)
    assert (result.exit_code, result.output) == (7, b"b\ne\n")
    with pytest.raises(RuntimeFailure, match='exec: "nosuch": executable file not found in \\$PATH'):
        await client.exec_in_container(container.id, ("nosuch",), timeout=DEADLINE)
    with pytest.raises(TimeoutError):
        await client.exec_in_container(container.id, ("sleep", "5555"), timeout=0.05)
    await world.until_no_process("sleep 5555")
    big = await client.exec_in_container(container.id, ("seq", "1", "100000"), timeout=DEADLINE)
    assert len(big.output) == 10 << 10
    await client.signal_container(container.id, signal.SIGKILL)
    await world.wait_exit(container.id)
    with pytest.raises(RuntimeFailure, match="not running"):
        await client.exec_in_container(container.id, ("true",), timeout=DEADLINE)
    with pytest.raises(RuntimeFailure, match="not found"):
        await client.exec_in_container("nosuch", ("true",), timeout=DEADLINE)


async def read_all(fd: int | None) -> bytes:
    """Read until the end of a non-blocking descriptor (a terminal's is an error)."""
    assert fd is not None
    data = b""
    async with asyncio.timeout(DEADLINE):
        while True:
            try:
                chunk = os.read(fd, 65536)
            except BlockingIOError:
                await asyncio.sleep(0.005)
                continue
            except OSError:
                return data
            if not chunk:
                return data
            data += chunk


async def open_shell(world: World, container: ContainerInfo, script: str, **options: bool) -> RemoteSession:
    return await world.client.open_exec(container.id, ("sh", "-c", script), **{"stdin": True, "tty": False, **options})


async def test_exec_passes_streams(world: World) -> None:
    await world.pod("p")
    container = await world.start("p", command=("sleep", "1000"))
    session = await open_shell(world, container, "cat; echo err >&2; exit 3")
    assert session.stdin_fd is not None
    os.write(session.stdin_fd, b"through the pipe")
    os.close(session.stdin_fd)
    session.stdin_fd = None
    assert await read_all(session.stdout_fd) == b"through the pipe"
    assert await read_all(session.stderr_fd) == b"err\n"
    assert await session.wait() == 3
    await session.close()

    session = await open_shell(world, container, "echo out; echo err >&2", stdin=False, stderr=False)
    assert (session.stdin_fd, session.stderr_fd) == (None, None)
    assert await read_all(session.stdout_fd) == b"out\nerr\n"
    assert await session.wait() == 0
    await session.close()

    with pytest.raises(RuntimeFailure, match="not found in"):
        await world.client.open_exec(container.id, ("nosuch",), stdin=False, tty=False)


async def test_exec_has_a_terminal(world: World) -> None:
    await world.pod("p")
    container = await world.start("p", command=("sleep", "1000"))
    session = await open_shell(world, container, "tty; read answer; stty size; echo $TERM $answer; exit 2", tty=True)
    session.resize(132, 43)
    assert session.stdin_fd is not None
    os.write(session.stdin_fd, b"typed\n")
    lines = (await read_all(session.stdout_fd)).decode().split("\r\n")
    assert "/dev/pts/0" in lines
    assert lines[-3:] == ["43 132", "xterm typed", ""]
    assert await session.wait() == 2
    await session.close()


async def test_a_command_goes_on_when_its_session_is_closed(world: World) -> None:
    """The command gets the end of its input, may write what nobody reads, and ends with its container."""
    await world.pod("p")
    container = await world.start("p", command=("sleep", "1000"))
    descriptors = world.run("ls", f"/proc/{world.runtime_pid()}/fd")
    script = "cat >/tmp/got; for i in $(seq 20000); do echo $i; echo $i >&2; done; echo whole >>/tmp/got"
    session = await open_shell(world, container, script)
    assert session.stdin_fd is not None
    os.write(session.stdin_fd, b"input ")
    await session.close()

    async def is_whole() -> bool:
        return await world.sh(container, "cat /tmp/got") == "input whole\n"

    await until(is_whole)

    async def nothing_is_left() -> bool:
        return len(world.run("ls", f"/proc/{world.runtime_pid()}/fd").split()) == len(descriptors.split())

    await until(nothing_is_left)
    session = await open_shell(world, container, "sleep 6666 & wait")
    await session.close()
    await world.client.signal_container(container.id, signal.SIGKILL)
    await world.until_no_process("sleep 6666")


async def test_a_command_that_writes_for_ever_ends_when_its_session_is_closed(world: World) -> None:
    await world.pod("p")
    container = await world.start("p", command=("sleep", "1000"))
    session = await open_shell(world, container, "exec yes endless", stdin=False)
    await session.close()
    await world.until_no_process("yes endless")


async def test_a_terminal_hangs_up_when_its_session_is_closed(world: World) -> None:
    await world.pod("p")
    container = await world.start("p", command=("sleep", "1000"))
    session = await open_shell(
        world, container, "trap 'echo hung up >/tmp/got; exit' HUP; echo go; while :; do sleep 0.1; done", tty=True
    )
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    assert session.stdout_fd is not None
    loop.add_reader(session.stdout_fd, ready.set_result, None)
    await ready
    loop.remove_reader(session.stdout_fd)
    await session.close()

    async def hung_up() -> bool:
        return await world.sh(container, "cat /tmp/got 2>/dev/null || true") == "hung up\n"

    await until(hung_up)


async def test_containers_end_with_a_killed_runtime(fresh_world: World) -> None:
    exits = fresh_world.client.exits()
    exit_event = asyncio.ensure_future(anext(exits))
    await fresh_world.pod("p")
    await fresh_world.start("p", command=("sleep", "4444"))
    links = fresh_world.run("ip", "-o", "link")
    fresh_world.run("kill", "-9", str(fresh_world.runtime_pid()))

    async def anew() -> bool:
        try:
            return await fresh_world.client.list_containers() == []
        except RuntimeFailure:
            return False

    await until(anew)
    assert await fresh_world.client.list_sandboxes() == []
    await fresh_world.until_no_process("sleep 4444")
    # A pod of the same name gets the same address, even before the kernel removed the old link.
    ip = await fresh_world.pod("p")
    await fresh_world.start("p", image=POD_TEST)
    await fresh_world.wait_port("p", 80)
    assert "ServerName: p" in fresh_world.run("curl", "-s", ip)
    assert "sleep" not in await fresh_world.sh((await fresh_world.client.list_containers())[0], "ps ax | grep -v grep")

    async def has_no_link_more() -> bool:
        return len(links.splitlines()) == len(fresh_world.run("ip", "-o", "link").splitlines())

    await until(has_no_link_more)
    with pytest.raises(RuntimeFailure, match="broke"):
        await exit_event


async def test_a_runtime_ends_with_its_zygote(fresh_world: World) -> None:
    """Without the zygote no container could start, and no exit would be observed."""
    await fresh_world.pod("p")
    await fresh_world.start("p", command=("sleep", "5555"))
    (fresh_world.node.directory / "may-fail").touch()
    before = fresh_world.runtime_pid()
    fresh_world.run("pkill", "-9", "-P", str(before), "-x", "zygote")

    async def anew() -> bool:
        try:
            return await fresh_world.client.list_containers() == [] and fresh_world.runtime_pid() != before
        except RuntimeFailure:
            return False

    await until(anew)
    await fresh_world.until_no_process("sleep 5555")
    await fresh_world.pod("p")
    assert (await fresh_world.run_to_end("p", "exit 3")).exit_code == 3


async def test_sigterm_leaves_no_process_and_no_interface(fresh_world: World) -> None:
    await fresh_world.pod("p")
    await fresh_world.start("p", command=("sleep", "3333"))
    pid = fresh_world.runtime_pid()
    fresh_world.run("kill", "-TERM", str(pid))

    async def gone() -> bool:
        return not fresh_world.run("sh", "-c", f"kill -0 {pid} 2>/dev/null && echo there; true")

    await until(gone)
    await fresh_world.until_no_process("sleep 3333")


async def test_an_invalid_client_is_disconnected(world: World) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(str(world.socket_path))
        client.settimeout(DEADLINE)
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert client.recv(100) == b""
    assert stat.S_IMODE(world.socket_path.stat().st_mode) == 0o600
    assert await world.client.list_containers() == []


async def test_built_in_servers_answer_from_their_start(world: World) -> None:
    """Each server answers from its start like the original image, and its files can be changed by exec."""
    expected = {
        "ikubernetes/myapp:v2": ("80", 'Hello MyApp | Version: v2 | <a href="hostname.html">Pod Name</a>\n'),
        "httpd": ("80", "<html><body><h1>It works!</h1></body></html>\n"),
        "gcr.io/google-samples/node-hello:1.0": ("8080", "Hello Kubernetes!"),
        "registry.k8s.io/e2e-test-images/agnhost:2.53": ("8080/hostname", "p3"),
    }
    for number, (image, (port, body)) in enumerate(expected.items()):
        pod = f"p{number}"
        ip = await world.pod(pod)
        args = ("netexec",) if "agnhost" in image else ()
        server = await world.start(pod, image=image, args=args)
        assert world.run("curl", "-s", f"http://{ip}:{port}") == body
        await world.client.signal_container(server.id, signal.SIGTERM)
        assert (await world.wait_exit(server.id)).exit_code == 0
    ip = await world.pod("n")
    nginx = await world.start("n", image="nginx")
    await world.sh(nginx, "echo changed > /usr/share/nginx/html/index.html")
    assert world.run("curl", "-s", ip) == "changed\n"
    assert world.run("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", f"{ip}/none") == "404"

    async def logged() -> bool:
        return any(line.endswith('"GET / HTTP/1.1" 200 8') for line in world.log("n"))

    await until(logged)
    ip = await world.pod("r")
    await world.start("r", image="redis")
    stream = await world.client.open_port("r", 6379)
    with stream:
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(stream, b"SET a 1\r\nINCR a\r\n")
        assert await loop.sock_recv(stream, 100) == b"+OK\r\n:2\r\n"


async def test_agnhost_serves_while_it_asks_and_has_its_commands(world: World) -> None:
    image = "registry.k8s.io/e2e-test-images/agnhost:2.53"
    ip = await world.pod("p")
    server = await world.start("p", image=image, args=("netexec",))
    await world.wait_port("p", 8080)
    url = f"http://{ip}:8080/dial?host={ip}&port=8080&request=hostname&tries=2"
    assert world.run("curl", "-s", url) == '{"responses":["p","p"]}'
    assert await world.sh(server, "/agnhost connect --timeout=3s 127.0.0.1:1 2>&1 || true") == "REFUSED\n"
    answer = await world.sh(server, "echo hostName | nc -v -t -w 30 127.0.0.1 8080 2>/dev/null")
    assert answer.startswith("HTTP/1.1 400 Bad Request")
    with contextlib.suppress(subprocess.CalledProcessError):  # the server may end before it has answered
        world.run("curl", "-s", f"http://{ip}:8080/exit?code=3&wait=1ms")
    assert (await world.wait_exit(server.id)).exit_code == 3
    ip = await world.pod("q")
    env = {"SERVE_PORT_80": "plain", "SERVE_TLS_PORT_443": "encrypted"}
    await world.start("q", image=image, args=("porter",), env=env)
    for port in (80, 443):
        await world.wait_port("q", port)
    assert world.run("curl", "-s", ip) == "plain"
    assert world.run("curl", "-sk", f"https://{ip}") == "encrypted"
    await world.pod("r")
    named = await world.start("r", image=image, args=("serve-hostname", "--http=false", "--tcp", "--udp"))
    await world.wait_port("r", 9376)
    assert await world.sh(named, "nc -t -w 30 127.0.0.1 9376 </dev/null") == "r"
    assert (await world.sh(named, "echo x | nc -u -w 1 127.0.0.1 9376")).startswith("r")
    assert ":9376 " in await world.sh(named, "netstat -na | grep LISTEN")


@pytest.mark.parametrize(
    "image", ["nginx", "redis", "registry.k8s.io/e2e-test-images/agnhost:2.53", "registry.k8s.io/pause:3.9"]
)
async def test_a_built_in_server_handles_sigterm_from_its_start(world: World, image: str) -> None:
    """Without a handler the first process would not receive the signal, and be killed after the grace period."""
    for number in range(10):
        await world.pod(f"p{number}")
        program = await world.start(f"p{number}", image=image)
        await world.client.signal_container(program.id, signal.SIGTERM)
        assert (await world.wait_exit(program.id)).exit_code == 0


async def test_a_part_handles_sigterm_from_its_start(world: World) -> None:
    """The signal may arrive before the part has installed its handlers."""
    nowhere = world.directory / "kubeconfig"
    nowhere.write_text(
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"
        "contexts: [{name: c, context: {cluster: c, user: ''}}]\ncurrent-context: c\n"
    )
    for number in range(10):
        await world.pod(f"p{number}")
        part = await world.start(
            f"p{number}",
            image="bridgehead/dns:latest",
            args=("--kubeconfig=/kubeconfig", "--no-upstream"),
            mounts=(Mount(source=str(nowhere), target="/kubeconfig", read_only=True),),
        )
        await asyncio.sleep(number / 20)
        await world.client.signal_container(part.id, signal.SIGTERM)
        assert (await world.wait_exit(part.id)).exit_code in (0, 128 + signal.SIGTERM), world.log(f"p{number}")


async def test_a_request_in_flight_is_answered_before_the_server_ends(world: World) -> None:
    await world.pod("p")
    server = await world.start("p", image=POD_TEST)
    await world.wait_port("p", 80)
    loop = asyncio.get_running_loop()
    with await world.client.open_port("p", 80) as stream:
        await loop.sock_sendall(stream, b"GET / HTTP/1.1\r\n")
        await world.client.signal_container(server.id, signal.SIGTERM)
        await until(lambda: _refused(world))
        await loop.sock_sendall(stream, b"Host: p\r\n\r\n")
        answer = await receive_all(stream)
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert b"Connection: close" in answer
    assert (await world.wait_exit(server.id)).exit_code == 0


async def _refused(world: World) -> bool:
    try:
        (await world.client.open_port("p", 80)).close()
    except RuntimeFailure:
        return True
    return False


async def test_a_part_runs_in_a_pod_under_its_kubernetes_name(world: World) -> None:
    """The image is the part's own or Kubernetes' name for it; the interpreter may be installed anywhere."""
    await world.pod("p", host_network=True)
    part = await world.start(
        "p", image="registry.k8s.io/kube-proxy:v1.36.0", args=("--help",), security=Security(privileged=True)
    )
    assert part.image.source == "part"
    assert (await world.wait_exit(part.id)).exit_code == 0
    assert any("bridgehead proxy" in line for line in world.log("p"))
    command = ("/usr/local/bin/kube-proxy", "--no-such-option")
    wrong = await world.start("p", "wrong", image="bridgehead/proxy:latest", command=command)
    assert (await world.wait_exit(wrong.id)).exit_code == 2
    assert any("--no-such-option" in line for line in world.log("p", "wrong"))


async def test_a_shell_can_start_a_built_in_server(world: World) -> None:
    ip = await world.pod("p")
    script = "hostname > /usr/share/nginx/html/index.html && exec nginx -g 'daemon off;'"
    server = await world.start("p", image="nginx:1.25", command=("/bin/sh", "-c", script))
    await world.wait_port("p", 80)
    assert world.run("curl", "-s", ip) == "p\n"
    assert "nginx/1.25 (Bridgehead's stand-in)" in await world.sh(server, "nginx -v 2>&1")
    await world.client.signal_container(server.id, signal.SIGTERM)
    assert (await world.wait_exit(server.id)).exit_code == 0


async def test_a_stand_in_names_in_its_log_what_it_does_not_do(world: World) -> None:
    """It does so also when a shell starts it, and when a file of a ConfigMap appears later."""
    configuration = world.directory / "conf.d"
    configuration.mkdir()
    (configuration / "default.conf").write_text("server { listen 8080; }")
    expected = [
        "stderr F This is Bridgehead's stand-in for nginx:1.25, not the image itself:"
        " a web server for the files in /usr/share/nginx/html",
        "stderr F stand-in: nothing listens on containerPort 8080/TCP: it listens on 80/TCP only",
        "stderr F stand-in: environment variables have no effect: WORKERS",
        "stderr F stand-in: arguments have no effect: -c x.conf",
        "stderr F stand-in: the configuration in /etc/nginx/conf.d (default.conf) has no effect: a stand-in reads none",
    ]
    for pod, command in (("direct", ("nginx",)), ("shell", ("sh", "-c", 'exec nginx "$@"', "sh"))):
        await world.pod(pod)
        await world.start(
            pod,
            image="nginx:1.25",
            command=(*command, "-c", "x.conf"),
            mounts=(Mount(source=str(configuration), target="/etc/nginx/conf.d"),),
            ports=("80/TCP", "8080/TCP"),
            variables=("WORKERS",),
        )

    async def both_have(lines: list[str]) -> bool:
        return all(world.log(pod) == lines for pod in ("direct", "shell"))

    await until(lambda: both_have(expected))
    (configuration / "later.conf").write_text("")
    await until(lambda: both_have([*expected, expected[-1].replace("default.conf", "later.conf")]))


async def test_attach_reads_the_containers_output(world: World) -> None:
    await world.pod("p")
    script = "read one; echo got $one; echo err >&2; cat; exit 6"
    container = await world.start("p", command=("sh", "-c", script), stdin=True, stdin_once=True)
    session = await world.client.open_attach(container.id, stdin=True)
    assert session.stdin_fd is not None
    os.write(session.stdin_fd, b"1\nrest\n")
    os.close(session.stdin_fd)
    session.stdin_fd = None
    assert await read_all(session.stdout_fd) == b"got 1\nrest\n"
    assert await read_all(session.stderr_fd) == b"err\n"
    assert await session.wait() == 6
    await session.close()
    assert sorted(world.log("p")) == ["stderr F err", "stdout F got 1", "stdout F rest"]
    with pytest.raises(RuntimeFailure, match="not running"):
        await world.client.open_attach(container.id, stdin=False)
    deaf = await world.start("p", "deaf", command=("sleep", "1000"))
    with pytest.raises(RuntimeFailure, match="no standard input"):
        await world.client.open_attach(deaf.id, stdin=True)


async def test_an_attached_session_that_does_not_read_is_disconnected(world: World) -> None:
    await world.pod("p")
    container = await world.start("p", command=("sh", "-c", "head -c 4000000 /dev/zero; echo; echo said; sleep 1000"))
    session = await world.client.open_attach(container.id, stdin=False)
    async with asyncio.timeout(DEADLINE):
        assert await session.wait() == 0
    await session.close()
    # A client that attaches from here on has nothing to read.
    await until(lambda: _same(world.log_path("p", "c").read_text()[-14:], "stdout F said\n"))
    other = await world.client.open_attach(container.id, stdin=False)
    await other.close()
    ended = await world.client.open_attach(container.id, stdin=False)
    await world.client.signal_container(container.id, signal.SIGKILL)
    async with asyncio.timeout(DEADLINE):
        assert await ended.wait() == 137
    await ended.close()
    await world.client.list_containers()  # the reply comes after all earlier notifications
    connection = world.client._connection
    assert connection is not None
    assert connection.sessions == {}


async def test_attach_has_a_terminal(world: World) -> None:
    await world.pod("p")
    container = await world.start("p", command=("sh",), stdin=True, tty=True)
    first = await world.client.open_attach(container.id, stdin=True)
    await first.close()  # leaves the shell alone
    session = await world.client.open_attach(container.id, stdin=True)
    session.resize(101, 37)
    assert session.stdin_fd is not None
    os.write(session.stdin_fd, b"stty size; tty; exit 9\n")
    lines = (await read_all(session.stdout_fd)).decode().split("\r\n")
    assert {"37 101", "/dev/pts/0"} <= set(lines)
    assert await session.wait() == 9
    await session.close()
    assert any("/dev/pts/0" in line for line in world.log("p"))


async def test_images_of_tools_bring_what_tutorials_type(world: World) -> None:
    """`redis-cli` is built in; `ping` and `wget` are BusyBox's whatever the host has; curl's image takes options."""
    tools.require("busybox", "curl")
    own = await world.pod("p")
    await world.start("p", "redis", image="redis")
    await world.wait_port("p", 6379)
    admin = await world.start("p", image="wangxiaochun/admin-box:v0.1", command=("sleep", "2000"))
    answers = await world.sh(admin, f"redis-cli -h {own} set a '1 2'; echo 'get a' | redis-cli -h {own}")
    assert answers == "OK\n1 2\n"
    refused = await world.client.exec_in_container(admin.id, ("redis-cli", "-p", "1", "ping"), timeout=DEADLINE)
    message = b"Could not connect to Redis at 127.0.0.1:1: Connection refused\n"
    assert (refused.exit_code, refused.output) == (1, message)
    assert "56 data bytes" in await world.sh(admin, f"ping -c 1 {own}")
    where = await world.sh(admin, "for tool in ping nc wget telnet; do command -v $tool; done")
    assert where.split() == [f"/usr/lib/network-tools/{name}" for name in ("ping", "nc", "wget", "telnet")]
    await world.pod("c")
    version = await world.start("c", image="curlimages/curl:8.9.1", args=("--version",))
    assert (await world.wait_exit(version.id)).exit_code == 0
    assert world.log("c")[0].startswith("stdout F curl ")
    shell = await world.start("c", "shell", image="curlimages/curl", args=("sh", "-c", "echo a shell"))
    assert (await world.wait_exit(shell.id)).exit_code == 0
    assert world.log("c", "shell") == ["stdout F a shell"]


async def test_without_busybox_wget_ping_and_the_prompt_are_built_in() -> None:
    with make_node("root", hidden="busybox") as node:
        async with enter_world(node) as world:
            own = await world.pod("p")
            await world.start("p", "app", image="ikubernetes/myapp:v1")
            await world.wait_port("p", 80)
            client = await world.start("p", image="busybox:1.36", command=("sleep", "1000"))
            script = f"for url in {own}/hostname.html; do wget -T 9 -qO- http://$url; done; ping -c 1 {own}; hostname"
            retrieved, ping, *rest = (await world.sh(client, script)).splitlines()
            assert (retrieved, ping, rest[-1]) == ("p", f"PING {own} ({own}): 56 data bytes", "p")
            assert "1 packets transmitted, 1 packets received, 0% packet loss" in rest
            assert await world.sh(client, "which wget ping nslookup") == (
                "/usr/lib/busybox/wget\n/usr/lib/busybox/ping\n/usr/local/sbin/nslookup\n"
            )
            missing = await world.client.exec_in_container(client.id, ("telnet", "web"), timeout=DEADLINE)
            assert (missing.exit_code, missing.output.partition(b":")[0]) == (127, b"telnet")
            session = await world.client.open_exec(client.id, ("/bin/sh",), tty=True, stdin=True)
            assert session.stdin_fd is not None
            os.write(session.stdin_fd, b"cd /tmp\nexit 7\n")
            output = await read_all(session.stdout_fd)
            assert output.index(b"/ # ") < output.index(b"/tmp # ")
            assert await session.wait() == 7
            await session.close()
            # Images of network tools have them, too.
            admin = await world.start("p", "tools", image="nicolaka/netshoot", command=("sleep", "1000"))
            assert await world.sh(admin, f"wget -qO- {own}/hostname.html") == "p\n"


async def test_a_container_runs_as_another_user() -> None:
    """The user can write its own files and /tmp. The test needs a user namespace with all ids."""
    with make_node("root") as node:
        async with enter_world(node) as world:
            await world.pod("p")
            script = "id -u; id -g; echo done >/dev/termination-log; touch /tmp/x /etc/x; grep CapEff /proc/self/status"
            groups = tuple(range(2000, 3000))
            security = Security(user=1000, group=1001, supplemental_groups=groups)
            ended = await world.run_to_end("p", script, security=security)
            assert ended.message == "done\n"
            assert ended.user == LinuxContainerUser(uid=1000, gid=1001, supplemental_groups=(1001, *groups))
            lines = [line.removeprefix("stdout F ") for line in world.log("p") if line.startswith("stdout")]
            assert lines == ["1000", "1001", "CapEff:\t0000000000000000"]
            # It gave up the signal that ends it with its runtime; the next runtime ends it.
            await world.start("p", "long", command=("sleep", "2222"), security=Security(user=1000))
            world.run("kill", "-9", str(world.runtime_pid()))

            async def anew() -> bool:
                try:
                    return await world.client.list_containers() == []
                except RuntimeFailure:
                    return False

            await until(anew)
            await world.until_no_process("sleep 2222")


async def test_a_container_has_the_requested_capabilities(world: World) -> None:
    await world.pod("p")
    script = "grep CapBnd /proc/self/status; echo 1 >/proc/sys/net/ipv4/ip_forward && echo wrote"
    await world.run_to_end("p", script, "ordinary")
    assert "stdout F CapBnd:\t00000000a80425fb" in world.log("p", "ordinary")
    assert "stdout F wrote" not in world.log("p", "ordinary")
    await world.run_to_end("p", script, "privileged", security=Security(privileged=True))
    assert "stdout F wrote" in world.log("p", "privileged")


async def test_busybox_has_its_own_tools(world: World) -> None:
    tools.require("busybox")
    world.run("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
    ip = await world.pod("app")
    await world.pod("client")
    await world.start("app", image="ikubernetes/myapp:v1")
    await world.wait_port("app", 80)
    client = await world.start("client", image="busybox:1.28", command=("sleep", "1000"))
    assert await world.sh(client, f"wget -O - -q http://{ip}/hostname.html") == "app\n"
    found = await world.client.exec_in_container(client.id, ("which", "wget"), timeout=DEADLINE)
    assert found.output == b"/usr/lib/busybox/wget\n"
    refused = await world.client.exec_in_container(client.id, ("/bin/sh", "-c", "echo >/proc/x"), timeout=DEADLINE)
    assert refused.output.startswith(
        b"/bin/sh: can't create /proc/x: "
    )  # BusyBox's message, not that of the host's shell
    # Up to 1.28, nslookup had another output and followed the search domains for all names.
    names = "Server:    127.0.0.1", "Name:      127.0.0.1"
    assert await world.sh(client, "nslookup 127.0.0.1 127.0.0.1") == "\n".join(
        f"{name}\nAddress 1: 127.0.0.1 localhost\n" for name in names
    )
