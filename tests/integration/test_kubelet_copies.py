"""Containers on a node where the kernel refuses overlays: their root file systems are copies."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from bridgehead.images import archives
from bridgehead.images.store.content import ContentStore
from bridgehead.kubelet.directory_use import measure_copies
from bridgehead.kubelet.runtimes.runtime import Mount
from bridgehead.network import syscalls
from tests.image_files import archive_of, busybox_entries, image_of, layer_of

from .runtime_world import Node, World, enter_world, make_node, until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: overlays over overlays of the machine's /usr")

IMAGE = "registry.example/app:1"
LAYERS = (
    layer_of(
        [
            *busybox_entries("sh", "cat", "ls", "sleep", "stat", "dd"),
            ("etc/old", "1"),
            ("open/", {"type": tarfile.DIRTYPE, "mode": 0o1777, "uid": 7, "gid": 8}),
            ("var/x", "1"),
            ("data/a/x", "1"),
            ("kind", "a file"),
            ("log/one", {"data": "1", "mode": 0o640, "uid": 7, "gid": 8}),
            ("log/two", {"type": tarfile.LNKTYPE, "linkname": "log/one"}),
        ]
    ),
    layer_of(
        [("etc/.wh.old", ""), ("var/.wh.x", ""), ("var/.wh..wh..opq", ""), ("data/.wh..wh..opq", ""), ("data/b", "2")]
    ),
    layer_of(
        [("kind/now", "a directory"), ("etc/passwd", "app:x:7:8::/:/bin/sh\n"), ("data/c", "3"), ("open/now", "")]
    ),
)

ALONE = "registry.example/alone:1"
LAYER_ALONE = layer_of([("kept", "1"), (".wh.gone", ""), ("d/.wh.gone", ""), ("d/kept", "")])


def fill(directory: Path) -> None:
    """Load an image to a store on an overlay, where nobody can make the devices that are whiteouts."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            syscalls.unshare(syscalls.CLONE_NEWNS)
            syscalls.mount("", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)
            for name in ("lower", "upper", "work", "content"):
                (directory / name).mkdir()
            data = ",".join(f"{name}dir={directory}/{name}" for name in ("lower", "upper", "work"))
            syscalls.mount("overlay", str(directory / "content"), "overlay", 0, data)
            image = image_of(*LAYERS, Entrypoint=["sh", "-c"], Volumes={"/log": {}})
            for name, each in ((IMAGE, image), (ALONE, image_of(LAYER_ALONE))):
                archives.load(ContentStore(directory / "content"), io.BytesIO(archive_of(name, each)))
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    (directory / "content").rmdir()
    (directory / "upper").rename(directory / "content")


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with make_node("stacked", fill=fill) as made:
        yield made


@pytest.fixture
async def world(node: Node) -> AsyncIterator[World]:
    async with enter_world(node) as entered:
        yield entered


async def test_an_image_is_copied_as_its_overlay_would_show_it(world: World) -> None:
    await world.pod("p")
    features = await world.client.find_features()
    assert features.copies == "overlayfs over the content store is refused: Invalid argument"
    runs = world.directory / "runs"
    script = (
        "ls /etc/old /var; ls /data; cat /kind/now; stat -c '%u %g %a %h' /log/one; stat -c '%u %g %a' /open;"
        " echo new >/data/c; dd if=/dev/zero of=/grown bs=1M count=3; echo done; sleep 2000"
    )
    arguments: dict[str, Any] = {"image": IMAGE, "args": (script,)}
    first = await world.start("p", **arguments, volume_directory=str(runs / "0"))

    async def is_done() -> bool:
        return "stdout F done" in world.log("p")

    await until(is_done)
    shown = [line.removeprefix("stdout F ") for line in world.log("p") if line.startswith("stdout")]
    assert shown == ["/var:", "b", "c", "a directory7 8 640 2", "7 8 1777", "done"]
    assert await world.client.measure_layers("p") == {"c": 0}
    assert 3 << 20 <= measure_copies(runs) < 4 << 20  # without the image
    # A second container of the image has files of its own.
    again = await world.start("p", "two", image=IMAGE, args=("cat /data/c; ls /",), volume_directory=str(runs / "1"))
    assert (await world.wait_exit(again.id)).exit_code == 0
    assert world.log("p", "two")[0].startswith("stdout F 3")
    assert "stdout F grown" not in world.log("p", "two")
    assert await world.sh(first, "cat /data/c") == "new\n"


async def test_a_read_only_root_and_the_files_of_an_image_as_a_volume(world: World) -> None:
    await world.pod("p")
    mounts = tuple(
        Mount(source="", target=target, image=image, read_only=True)
        for target, image in (("/image", IMAGE), ("/alone", ALONE))
    )
    script = "ls /image/data /alone /alone/d; for d in image alone tmp/none .; do touch /$d/new || true; done"
    ended = await world.run_to_end("p", script, mounts=mounts, volume_directory=str(world.directory / "run"))
    assert ended.exit_code == 0
    shown = [line.removeprefix("stdout F ") for line in world.log("p") if line.startswith("stdout F")]
    # A whiteout that has nothing below it hides nothing, and is no file.
    assert [name for name in shown if name] == ["/alone:", "d", "kept", "/alone/d:", "kept", "/image/data:", "b", "c"]
    for path in ("/image/new", "/alone/new"):
        assert any(path in line and "Read-only" in line for line in world.log("p"))


async def test_a_stand_in_has_the_hosts_programs_and_files_of_its_own(world: World) -> None:
    await world.pod("p")
    await world.start("p", image="nginx")
    await world.wait_port("p", 80)
    configuration = world.directory / "configuration"
    configuration.mkdir()
    mounts = (Mount(source=str(configuration), target="/usr/share/nginx/html/files"),)
    script = (
        "echo x >/usr/local/bin/x && echo x >/etc/x && cat /usr/local/bin/x /etc/x && ls -d /usr/share/nginx/html/files"
        " && rm /usr/bin/env"
    )
    ended = await world.run_to_end("p", script, "two", mounts=mounts)
    assert ended.exit_code
    refused, *shown = sorted(world.log("p", "two"))
    assert refused.startswith("stderr F ")
    assert "Read-only file system" in refused
    assert shown == ["stdout F /usr/share/nginx/html/files", "stdout F x", "stdout F x"]
    assert "x" not in os.listdir("/etc")
