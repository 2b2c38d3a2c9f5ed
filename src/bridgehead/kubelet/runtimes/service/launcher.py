"""Launches of containers: the images' files with their locks, the plan and the process of each run. No call blocks."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from bridgehead.images.store.layer_locks import LayerLocks
from bridgehead.kubelet.runtimes.image_resolver import ImageDirectories, ResolvedImage, resolve_image
from bridgehead.kubelet.runtimes.isolation import cgroups, host_files, overlays, privileges, rootfs
from bridgehead.kubelet.runtimes.isolation.container_cgroups import Delegation, PodCgroup
from bridgehead.kubelet.runtimes.runtime import (
    ContainerSpec,
    ImageUnavailable,
    Limits,
    Mount,
    RuntimeFailure,
    RuntimeFeatures,
    SandboxSpec,
)
from bridgehead.kubelet.runtimes.spawn.program_start import DEFAULT_PATH
from bridgehead.kubelet.runtimes.spawn.zygote import Zygote
from bridgehead.standins import host_tools

from .container_plan import (
    ContainerPlanner,
    NodeFiles,
    find_last_id,
    find_pod_id_ranges,
)
from .process_ledger import ProcessLedger
from .reactor import Reactor
from .sandboxes import Sandbox
from .tasks import Task

log = logging.getLogger(__name__)


class Launcher:
    """Launches containers on one node. When it is made, it ends what an earlier runtime left in `root_dir`.

    A container's layers are locked from its launch until `release`, so that no removal of images takes its files. The
    processes of containers do not inherit the locks' descriptors: they are the zygote's children.
    """

    def __init__(
        self, *, reactor: Reactor, root_dir: str, images: ImageDirectories, zygote: Zygote, lack_of_cgroup: str
    ) -> None:
        self._reactor = reactor
        self._images = images
        self._zygote = zygote
        self._locks = LayerLocks()
        self._layers: dict[str, Sequence[str]] = {}  # by the container's id
        self._ledger = ProcessLedger(os.path.join(root_dir, "processes"))
        self._delegation: Delegation | None = None
        delegated = cgroups.find_delegated()
        if isinstance(delegated, str):
            lack = lack_of_cgroup or delegated
        else:
            self._delegation = delegated.for_runtime(root_dir)
            lack = _describe_missing_controllers(delegated)
        refusals = _find_refusals(root_dir, images)
        self._planner = _make_planner(root_dir, refusals, has_cgroups=self._delegation is not None)
        self.features = RuntimeFeatures(
            limits=lack,
            last_id=find_last_id(),
            copies=_describe_refusals(refusals),
            pod_id_ranges=find_pod_id_ranges(),
        )
        self._ledger.end_all()
        self._remove_cgroups()

    def close(self) -> None:
        """Release what is left after the end of all containers."""
        self._remove_cgroups()

    def _remove_cgroups(self) -> None:
        if self._delegation is not None:
            with contextlib.suppress(OSError):  # they are empty directories; the next runtime tries again
                self._delegation.remove_leftovers()

    def make_pod_group(self, spec: SandboxSpec) -> PodCgroup | None:
        """Make the cgroup of a pod, None where nothing is delegated. Raises `RuntimeFailure`."""
        if self._delegation is None:
            return None
        try:
            return self._delegation.make_pod(spec.pod_uid, spec.limits)
        except OSError as error:
            raise RuntimeFailure(f"failed to create the pod's cgroup: {error}") from error

    def launch(self, spec: ContainerSpec, sandbox: Sandbox, host: Task | None = None) -> Task:
        """Fork a container's first process, in the PID namespace of `host` if there is one.

        The caller has to `release` the task, whatever its end. Raises `RuntimeFailure` or `ImageUnavailable`; nothing
        is locked then.
        """
        layers: list[str] = []
        with contextlib.ExitStack() as undo:
            undo.callback(self._locks.release, layers)
            image = self._acquire_image(spec.image.name, layers)
            mounts = tuple(self._with_layers(mount, layers) for mount in spec.mounts)
            spec = msgspec.structs.replace(spec, mounts=mounts)
            job = self._planner.plan(spec, sandbox.spec, sandbox.descriptors, image)
            task = Task(self._reactor, job, sandbox, image.image, sandbox.group, self._ledger, host)
            task.fork(self._zygote)
            undo.pop_all()
        self._layers[task.id] = layers
        return task

    def release(self, task: Task) -> None:
        """Unlock the layers of a container that has ended, once."""
        self._locks.release(self._layers.pop(task.id, ()))

    def _acquire_image(self, name: str, layers: list[str]) -> ResolvedImage:
        """Find an image, lock its layers and append them to `layers`. Raises as `launch`."""
        image = resolve_image(name, self._images)
        try:
            self._locks.acquire(image.shared_layers)
        except OSError as error:
            raise ImageUnavailable(f"the image {name} was removed: {error.strerror or error}") from error
        layers += image.shared_layers
        return image

    def _with_layers(self, mount: Mount, layers: list[str]) -> Mount:
        """Find the files of a mounted image, as `_acquire_image` does."""
        if not mount.image:
            return mount
        found = self._acquire_image(mount.image, layers)
        if not found.layers:
            raise RuntimeFailure(f'image "{mount.image}" has no files to mount: {found.image.id}')
        return msgspec.structs.replace(mount, layers=found.layers)


class _Refusals(NamedTuple):
    """Reasons why the kernel refuses overlays, "" where it does not: over images, and over the host's directories."""

    images: str
    host: str


def _base(root_dir: str) -> str:
    """An empty directory that containers cover while they are built."""
    base = os.path.join(root_dir, "container")
    os.makedirs(base, exist_ok=True)
    return base


def _find_refusals(root_dir: str, images: ImageDirectories) -> _Refusals:
    store = next((each for each in (images.content, images.local) if os.path.isdir(each)), "/usr")
    refusals = _Refusals(*overlays.find_refusals(store, "/usr", _base(root_dir)))
    if any(refusals):
        log.warning("root file systems of containers are copies: %s", _describe_refusals(refusals))
    return refusals


def _describe_refusals(refusals: _Refusals) -> str:
    if refusals.images:
        return f"overlayfs over the content store is refused: {refusals.images}"
    return f"overlayfs over this machine's directories is refused: {refusals.host}" if refusals.host else ""


def _make_planner(root_dir: str, refusals: _Refusals, *, has_cgroups: bool) -> ContainerPlanner:
    copies = os.path.join(root_dir, "copies")
    host_root = host_files.observe_host_root(copies, can_overlay=not refusals.host)
    own_paths = [path for path in host_files.own_paths() if not rootfs.is_shown(host_root, path)]
    files = NodeFiles(
        host_root=host_root,
        base=_base(root_dir),
        tools=host_tools.prepare_tools(root_dir, DEFAULT_PATH, own_paths),
        own_paths=own_paths,
        copies_images=bool(refusals.images),
    )
    with open("/proc/self/status", encoding="utf-8", errors="replace") as status:
        available = privileges.parse_available(status.read())
    return ContainerPlanner(files, available, has_cgroups=has_cgroups)


def _describe_missing_controllers(delegation: Delegation) -> str:
    missing = delegation.lacking(Limits(memory=1, cpu_millis=1, pids=1))
    return f"the cgroup that is delegated to the lab has no controller for {', '.join(missing)}" if missing else ""
