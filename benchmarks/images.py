"""Images: a pull with its unpacking, beside skopeo and umoci; the start of a pod of an image that is there, and of 100.

The registry is docker-registry on loopback. The image is made of this machine's own files.
"""

from __future__ import annotations

import asyncio
import io
import itertools
import os
import resource
import shutil
import statistics
import subprocess
import sysconfig
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.image_files import BuiltImage, busybox_entries, compress, image_of, layer_of, push
from tests.integration.registries import docker_registry

from bridgehead.client import ApiClient, load_kubeconfig
from bridgehead.images.pulling import Puller
from bridgehead.images.references import parse_reference
from bridgehead.images.registry.transport import Transport
from bridgehead.images.store.content import ContentStore
from bridgehead.objects.kinds import DEPLOYMENTS, PODS

from .barrier import follow, until, until_ready
from .lab import BRIDGEHEAD, call
from .tables import Table

ROUNDS = 5
STARTS = 30
PODS_AT_ONCE = 100
NODES = 3
LAYER_BYTES = 75 << 20
MEMORY_BYTES = 2 << 30
_MEMORY = "/dev/shm"  # a tmpfs: a disk would decide the times, above all one that others use
# Programs, libraries, many small files, and the modules of an interpreter.
SOURCES = ("/usr/bin", "/usr/lib", "/usr/share", sysconfig.get_path("stdlib"))


class _Cost(NamedTuple):
    """Seconds by the clock, and of the processors."""

    elapsed: float
    processor: float


def run() -> list[Table]:
    with tempfile.TemporaryDirectory() as directory:
        base = Path(directory)
        (base / "registry").mkdir()
        image, note = _make_image()
        with docker_registry(base / "registry") as address:
            push(f"http://{address}", "bench", "1", image)
            rows = [*_compare_pulls(address), *_measure_pods(f"{address}/bench:1", base / "lab")]
    return [Table("Images", ("what", "measured", "processor time"), rows, note)]


def _make_image() -> tuple[BuiltImage, str]:
    """Return an image of four layers with files and one with BusyBox, and its description."""
    tars = [_tar_of(source) for source in SOURCES]
    layers = [compress(content, "gzip") for content in tars]
    layers.append(layer_of(busybox_entries("sh", "sleep")))
    image = image_of(*layers, Entrypoint=["sleep"], Cmd=["1000000"])
    entries = sum(_count_entries(content) for content in tars)
    note = (
        f"An image of {len(layers)} layers and {entries:,} files, {_megabytes(map(len, tars))} MB unpacked,"
        f" {_megabytes(len(layer.content) for layer in layers)} MB to download, from docker-registry on loopback."
        " Pulls are made in turns to empty directories in memory. Bridgehead's puller is a forked process that has its"
        " modules, as in a lab after its first pull; `skopeo copy` and `umoci unpack` are programs that start."
        " Pods: from the request until a watch shows Ready, without kubectl's own start."
    )
    return image, note


def _tar_of(source: str) -> bytes:
    """A tar archive of the first files below a directory, by their paths."""
    with tempfile.TemporaryFile() as file:
        with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for directory, directories, names in os.walk(source):
                directories.sort()
                for path in (os.path.join(directory, name) for name in sorted(names)):
                    if os.path.isfile(path) and os.path.getsize(path) < LAYER_BYTES // 4:
                        archive.add(path, recursive=False)
                    if archive.offset >= LAYER_BYTES:
                        break
                else:
                    continue
                break
        file.seek(0)
        return file.read()


def _count_entries(content: bytes) -> int:
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        return len(archive.getmembers())


# Pulls.


def _compare_pulls(address: str) -> Iterator[list[str]]:
    memory = _MEMORY if shutil.disk_usage(_MEMORY).free > MEMORY_BYTES else None
    routes: dict[str, Callable[[Path], None]] = {
        "pull and unpack, Bridgehead": lambda to: _pull(f"{address}/bench:1", to),
        "`skopeo copy`, `umoci unpack`": lambda to: _run_skopeo_and_umoci(f"{address}/bench:1", to),
    }
    costs: dict[str, list[_Cost]] = {name: [] for name in routes}
    for _, (name, route) in itertools.product(range(ROUNDS), routes.items()):
        with tempfile.TemporaryDirectory(dir=memory) as target:
            costs[name].append(_measure(route, Path(target)))
    elapsed = {name: statistics.median(cost.elapsed for cost in each) for name, each in costs.items()}
    for name, each in costs.items():
        processor = statistics.median(cost.processor for cost in each)
        yield [name, _seconds([cost.elapsed for cost in each]), f"{processor:.2f} s"]
    own, other = elapsed.values()
    yield ["Bridgehead's time, of that of skopeo and umoci", f"{own / other:.2f}", ""]


def _measure(route: Callable[[Path], None], target: Path) -> _Cost:
    """Run `route` in a forked process, and measure that and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        try:
            route(target)
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    elapsed = time.perf_counter() - began
    if status:
        raise RuntimeError("the pull failed")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return _Cost(elapsed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def _pull(image: str, target: Path) -> None:
    reference = parse_reference(image)
    if reference is None:
        raise ValueError(image)

    async def pull() -> None:
        async with Transport(is_offline=True) as transport:
            await Puller(ContentStore(target), transport).pull(reference)

    asyncio.run(pull())


def _run_skopeo_and_umoci(image: str, target: Path) -> None:
    layout = f"{target}/layout:1"
    copy = ["skopeo", "copy", "--quiet", "--insecure-policy", "--src-tls-verify=false"]
    for argv in ([*copy, f"docker://{image}", f"oci:{layout}"], ["umoci", "unpack", "--image", layout, f"{target}/b"]):
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, timeout=600)


# Pods.


def _measure_pods(image: str, state: Path) -> list[list[str]]:
    lab = ("--name", "bench", "--state-dir", str(state))
    call(BRIDGEHEAD, "up", *lab, "--nodes", NODES, "--detach", "--ephemeral", "--offline")
    try:
        call(BRIDGEHEAD, "image", "pull", image, *lab)
        return asyncio.run(_measure_starts(image, state / "kubeconfig"))
    finally:
        call(BRIDGEHEAD, "down", *lab)


async def _measure_starts(image: str, kubeconfig: Path) -> list[list[str]]:
    async with ApiClient(load_kubeconfig(kubeconfig)) as client:
        async with follow(client, "app=one") as (pods, changed):
            starts = []
            for number in range(STARTS):
                began = time.perf_counter()
                await client.create(PODS, {**_pod("one", image), "metadata": _metadata(f"one-{number}", "one")})
                await until_ready(pods, changed, 1)
                starts.append(time.perf_counter() - began)
                await client.delete(PODS, f"one-{number}", "default", grace_period_seconds=0)
                await until(changed, lambda: not list(pods.items()))
        async with follow(client, "app=many") as (pods, changed):
            spec = {
                "replicas": PODS_AT_ONCE,
                "selector": {"matchLabels": {"app": "many"}},
                "template": _pod("many", image),
            }
            began = time.perf_counter()
            await client.create(DEPLOYMENTS, {"metadata": _metadata("many", "many"), "spec": spec})
            await until_ready(pods, changed, PODS_AT_ONCE)
            many = time.perf_counter() - began
    milliseconds = [each * 1000 for each in starts]
    return [
        [
            f"a pod of the pulled image, created to Ready (median of {STARTS}), {NODES} nodes",
            f"{statistics.median(milliseconds):.0f} ms ({min(milliseconds):.0f} to {max(milliseconds):.0f})",
            "",
        ],
        [f"a Deployment of {PODS_AT_ONCE} such pods, created to all Ready, {NODES} nodes", f"{many:.2f} s", ""],
    ]


def _pod(app: str, image: str) -> dict[str, Any]:
    container = {"name": "main", "image": image, "imagePullPolicy": "IfNotPresent"}
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": [container]}}


def _metadata(name: str, app: str) -> dict[str, Any]:
    return {"name": name, "namespace": "default", "labels": {"app": app}}


def _megabytes(sizes: Any) -> str:
    return f"{sum(sizes) / 1e6:.0f}"


def _seconds(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} s (median of {len(values)}, {min(values):.2f} to {max(values):.2f})"
