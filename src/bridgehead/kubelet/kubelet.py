"""The kubelet: runs the pods that are bound to this node.

This module connects informers, the runtime and one pod worker for each pod; decisions are made elsewhere. Containers
are children of the runtime, so a kubelet that ends leaves them running and the next one goes on with them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

from bridgehead.client import ApiClient, EventRecorder, Informer
from bridgehead.images.service.client import PullerClient
from bridgehead.images.store.image_record import ImageRecord
from bridgehead.objects.core import Pod
from bridgehead.objects.kinds import PODS, SERVICES
from bridgehead.objects.meta import ObjectKey

from .containers.context import NodeContext
from .containers.handlers import Handlers
from .metrics.operations import KubeletMetrics, ProbeMetrics
from .node.image_collector import ImageCollector
from .node.last_addresses import read_last_addresses
from .node.machine import kernel_has_app_armor, machine_capacity
from .node.node_reporter import NodeReporter
from .node.pod_addresses import PodAddresses
from .node.pod_id_ranges import PodUsers
from .node.settings import NodeSettings
from .nofollow import remove_tree
from .pods.barrier import Barrier
from .pods.eviction import StorageEvictions
from .pods.mirror_pods import mirrored_uid, with_local_uid
from .pods.orphans import remove_orphan, remove_orphaned_directories
from .pods.pod_worker import PodWorker
from .pods.static_manifest import without_source
from .pods.static_pods import StaticPods
from .runtimes.runtime import ContainerInfo, Runtime, RuntimeFailure, SandboxInfo
from .volumes.referenced_objects import ReferencedObjects
from .volumes.volume_manager import VolumeManager

log = logging.getLogger(__name__)

RELIST_SECONDS = 10.0  # how often the runtime lists everything, in case an exit was missed
_RECONNECT_SECONDS = 0.5
_WORKER_RESTART_SECONDS = 5.0


class Kubelet:
    """`await run()` until cancelled. `pods` and `worker` are for the kubelet's server."""

    def __init__(
        self,
        settings: NodeSettings,
        client: ApiClient,
        runtime: Runtime,
        puller: PullerClient | None = None,
        metrics: KubeletMetrics | None = None,
    ) -> None:
        self._settings = settings
        self._puller = puller
        self._client = client
        self.runtime = runtime
        self.metrics, self.probe_metrics = metrics or KubeletMetrics(), ProbeMetrics()
        self._recorder = EventRecorder(client, component="kubelet", host=settings.name)
        self._pods: Informer[Pod] = Informer(client, PODS, field_selector=f"spec.nodeName={settings.name}", few=True)
        self._services = Informer(client, SERVICES)
        self._workers: dict[str, PodWorker] = {}
        self._finished: set[str] = set()  # uids whose worker has finished but whose object the informer still has
        # Containers that the runtime had at the start, by pod uid, until a worker takes them over.
        self._found: dict[str, list[ContainerInfo]] = {}
        self._sandboxes: dict[str, SandboxInfo] = {}
        self._tasks = asyncio.TaskGroup()
        self._node: NodeContext | None = None
        self._barrier = Barrier(client, self._services)
        self._static = StaticPods(settings.static_pods, client, settings.name, self._start_static, self._stop_static)

    @property
    def settings(self) -> NodeSettings:
        return self._settings

    def pods(self) -> list[Pod]:
        """Return the pods of this node as the API server has them."""
        return [with_local_uid(pod) if mirrored_uid(pod) else without_source(pod) for pod in self._pods.items()]

    @property
    def node_name(self) -> str:
        return self._settings.name

    def claims(self) -> Iterator[tuple[str, str, str]]:
        """Yield namespace, claim and path of the volumes of claims that are set up."""
        for worker in self._workers.values():
            meta = worker.pod.metadata
            for volume in worker.pod.spec.volumes:
                claim, path = volume.claim_name(meta.name), worker.volume_paths.get(volume.name)
                if claim and path is not None:
                    yield meta.namespace, claim, path

    def worker(self, namespace: str, name: str) -> PodWorker | None:
        """Return the worker of a pod, None if the node does not run it."""
        pod = self._pods.get(ObjectKey(namespace, name))
        return self._workers.get(with_local_uid(pod).metadata.uid) if pod is not None else None

    async def run(self) -> None:
        """Run until cancelled. Raises `RuntimeFailure` when the runtime does not answer at start."""
        settings = self._settings
        settings.root.mkdir(parents=True, exist_ok=True)
        # It has tokens and Secrets that any user of a container can read; users of the machine must not.
        pods = settings.root / "pods"
        pods.mkdir(exist_ok=True)
        pods.chmod(0o750)
        capacity = machine_capacity(settings.root, settings.max_pods)
        addresses = PodAddresses(*settings.pod_cidrs)
        features = await self.runtime.find_features()
        users = PodUsers(pods, features.pod_id_ranges)
        reporter = NodeReporter(
            settings,
            self._client,
            self._recorder,
            capacity,
            self._list_images,
            has_user_namespaces=users.are_supported,
        )
        async with (
            ReferencedObjects(self._client, self._reference_changed) as objects,
            self._barrier,
            asyncio.TaskGroup() as self._tasks,
        ):
            node = self._node = NodeContext(
                settings=settings,
                client=self._client,
                runtime=self.runtime,
                puller=self._puller,
                recorder=self._recorder,
                services=self._services,
                objects=objects,
                volumes=VolumeManager(settings.root, self._client, objects, capacity, settings.name),
                addresses=addresses,
                users=users,
                handlers=Handlers(self.runtime),
                allocatable=capacity,
                has_app_armor=kernel_has_app_armor(),
                pods=lambda: [worker.pod for worker in self._workers.values() if not worker.is_gone],
                pods_listed=self._pods.wait_synced,
                find_node=reporter.find_node,
                preempt=self._preempt,
                metrics=self.metrics,
                probe_metrics=self.probe_metrics,
            )
            self._tasks.create_task(self._recorder.run())
            self._tasks.create_task(self._watch_exits())
            await self._list_runtime()
            for uid, sandbox in self._sandboxes.items():
                addresses.claim(uid, sandbox.ips)
            addresses.continue_after(read_last_addresses(settings.root))
            await reporter.register()
            if features.limits:
                reporter.warn_of_limits(features.limits)
            if features.copies:
                reporter.warn_of_copies(features.copies)
            self._tasks.create_task(reporter.run())
            if self._puller is not None:
                collector = ImageCollector(settings, self.runtime, self._puller, reporter.record)
                self._tasks.create_task(collector.run())
            self._tasks.create_task(self._services.run())
            await self._services.wait_synced()  # a container's environment names every Service
            await self._static.scan()
            self._pods.on_change(self._pod_changed)
            self._tasks.create_task(self._pods.run())
            await self._pods.wait_synced()
            self._tasks.create_task(self._static.run())
            await self._remove_orphans(node)
            self._tasks.create_task(self._relist_periodically())
            evictions = StorageEvictions(
                settings,
                self.runtime,
                lambda: list(self._workers.values()),
                node.volumes.empty_dir,
                node.volumes.container_directory,
            )
            self._tasks.create_task(evictions.run())

    def _list_images(self) -> list[ImageRecord]:
        return self._puller.list_images() if self._puller is not None else []

    # --- Pods -------------------------------------------------------------------------------------------

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if (known := new or old) is not None and (static_uid := mirrored_uid(known)):
            self._mirror_changed(static_uid, old, new)
            return
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            worker = self._workers.get(old.metadata.uid)
            self._finished.discard(old.metadata.uid)
            if worker is not None:
                worker.on_object_gone()
        if new is None or self._node is None or new.metadata.uid in self._finished:
            return
        new = without_source(new)
        worker = self._workers.get(new.metadata.uid)
        if worker is not None:
            worker.observe(new)
            return
        self._start_worker(self._node, new)

    def _start_worker(self, node: NodeContext, pod: Pod) -> None:
        uid = pod.metadata.uid
        self.metrics.record_pod()
        self._workers[uid] = worker = PodWorker(
            node, self._barrier, pod, self._sandboxes.pop(uid, None), self._found.pop(uid, [])
        )
        self._tasks.create_task(self._run_worker(worker))

    def _start_static(self, pod: Pod) -> None:
        if self._node is not None:
            self._start_worker(self._node, pod)

    def _stop_static(self, uid: str) -> None:
        if (worker := self._workers.get(uid)) is not None:
            worker.stop()

    def _mirror_changed(self, static_uid: str, old: Pod | None, new: Pod | None) -> None:
        self._static.on_mirror_changed(old, new)
        if (worker := self._workers.get(static_uid)) is not None:
            worker.observe_mirror(new)

    async def _run_worker(self, worker: PodWorker) -> None:
        """Run a worker to its end. An unexpected error in one worker must not stop the others."""
        uid = worker.pod.metadata.uid
        while True:
            try:
                await worker.run()
                break
            except Exception:
                log.exception("pod %s: unexpected error, resuming in %.0f s", worker.pod.key, _WORKER_RESTART_SECONDS)
            await asyncio.sleep(_WORKER_RESTART_SECONDS)
        self._workers.pop(uid, None)
        self.probe_metrics.forget(uid)
        self._static.on_ended(uid)
        current = self._pods.get(worker.pod.key)
        if current is not None and current.metadata.uid == uid:
            self._finished.add(uid)
        await asyncio.to_thread(remove_tree, self._settings.log_directory(worker.pod))

    async def _preempt(self, uid: str) -> None:
        if (worker := self._workers.get(uid)) is not None:
            await worker.preempt()

    def _reference_changed(self, pod_uid: str) -> None:
        worker = self._workers.get(pod_uid)
        if worker is not None:
            worker.on_references_changed()

    # --- The runtime ------------------------------------------------------------------------------------

    async def _watch_exits(self) -> None:
        connected = True
        while True:
            try:
                async for info in self.runtime.exits():
                    worker = self._workers.get(info.pod_uid)
                    if worker is not None:
                        worker.on_container_changed(info)
                    elif info.pod_uid in self._found:
                        others = [c for c in self._found[info.pod_uid] if c.name != info.name]
                        self._found[info.pod_uid] = [*others, info]
            except RuntimeFailure as error:
                if connected:
                    log.warning("the container runtime does not answer, retrying: %s", error)
                connected = False
            await asyncio.sleep(_RECONNECT_SECONDS)
            try:
                await self._notify_workers()
                connected = True
            except RuntimeFailure:
                connected = False

    async def _relist_periodically(self) -> None:
        while True:
            await asyncio.sleep(RELIST_SECONDS)
            try:
                await self._notify_workers()
            except RuntimeFailure as error:
                log.debug("runtime not listed: %s", error)

    async def _list_runtime(self) -> None:
        self._sandboxes = {s.pod_uid: s for s in await self.runtime.list_sandboxes()}
        self._found = {}
        for info in await self.runtime.list_containers():
            self._found.setdefault(info.pod_uid, []).append(info)

    async def _notify_workers(self) -> None:
        """List everything that the runtime has, and hand each worker its part."""
        # The answer may lack a sandbox that is made meanwhile; its worker must not take it for lost.
        known = [(uid, worker, worker.sandbox) for uid, worker in self._workers.items()]
        sandboxes = {s.pod_uid: s for s in await self.runtime.list_sandboxes()}
        containers: dict[str, list[ContainerInfo]] = {}
        for info in await self.runtime.list_containers():
            containers.setdefault(info.pod_uid, []).append(info)
        for uid, worker, sandbox in known:
            if worker.sandbox is sandbox:
                worker.on_runtime_listed(sandboxes.get(uid), containers.get(uid, []))

    async def _remove_orphans(self, node: NodeContext) -> None:
        orphans = [uid for uid in self._sandboxes if uid not in self._workers]
        for uid in orphans:
            self._tasks.create_task(self._remove_orphan(node, uid))
        await remove_orphaned_directories(self._settings.root, self._workers, orphans)

    async def _remove_orphan(self, node: NodeContext, uid: str) -> None:
        if await remove_orphan(node, self._sandboxes[uid], self._found.get(uid, [])):
            self._found.pop(uid, None)
            self._sandboxes.pop(uid, None)
