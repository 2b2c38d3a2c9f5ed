"""The kubelet: runs the pods that the API server has for this node.

Made by `bridgehead kubelet`. Wires informers, the runtime and one worker for each pod; the decisions are elsewhere.
Containers are the runtime's, so that a kubelet that ends leaves them running and the next one carries on with them.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import signal
from pathlib import Path

from bridgehead.client import ApiClient, EventRecorder, Informer
from bridgehead.objects.core import Pod
from bridgehead.objects.kinds import PODS, SERVICES
from bridgehead.objects.meta import ObjectKey

from .addresses import PodAddresses
from .barrier import Barrier
from .handlers import Handlers
from .node import NodeReporter, kernel_has_app_armor, machine_capacity
from .parts import NodeParts, NodeSettings
from .pod_worker import PodWorker
from .references import ReferencedObjects
from .runtimes.runtime import ContainerInfo, Runtime, RuntimeFailure, SandboxInfo
from .volumes import Volumes, remove_pod_directory

log = logging.getLogger(__name__)

RELIST_SECONDS = 10.0  # how often the runtime is asked for everything, in case an exit was missed
_RECONNECT_SECONDS = 0.5
_WORKER_RESTART_SECONDS = 5.0
_ORPHAN_GRACE_SECONDS = 2.0
_ORPHAN_POLL_SECONDS = 0.1


class Kubelet:
    """`await run()` until cancelled. `pods` and `worker` are for the kubelet's server."""

    def __init__(self, settings: NodeSettings, client: ApiClient, runtime: Runtime) -> None:
        self._settings = settings
        self._client = client
        self.runtime = runtime
        self._recorder = EventRecorder(client, component="kubelet", host=settings.name)
        self._pods: Informer[Pod] = Informer(client, PODS, field_selector=f"spec.nodeName={settings.name}")
        self._services = Informer(client, SERVICES)
        self._workers: dict[str, PodWorker] = {}
        self._finished: set[str] = set()  # pods whose life is over here but whose object is still seen
        self._found: dict[str, list[ContainerInfo]] = {}
        self._sandboxes: dict[str, SandboxInfo] = {}
        self._tasks = asyncio.TaskGroup()
        self._parts: NodeParts | None = None

    @property
    def settings(self) -> NodeSettings:
        return self._settings

    def pods(self) -> list[Pod]:
        """The pods of this node as the API server has them."""
        return list(self._pods.items())

    def worker(self, namespace: str, name: str) -> PodWorker | None:
        pod = self._pods.get(ObjectKey(namespace, name))
        return self._workers.get(pod.metadata.uid) if pod is not None else None

    async def run(self) -> None:
        """Raises `runtimes.runtime.RuntimeFailure` when the runtime does not answer at start."""
        settings = self._settings
        settings.root.mkdir(parents=True, exist_ok=True)
        # Tokens and Secrets lie below it, readable for whomever a container runs as: not for users of the machine.
        pods = settings.root / "pods"
        pods.mkdir(exist_ok=True)
        pods.chmod(0o750)
        capacity = machine_capacity(settings.root, settings.max_pods)
        addresses = PodAddresses(*settings.pod_cidrs)
        async with (
            Handlers(self.runtime) as handlers,
            ReferencedObjects(self._client, self._reference_changed) as objects,
            Barrier(self._client, self._services) as barrier,
            asyncio.TaskGroup() as self._tasks,
        ):
            self._parts = NodeParts(
                settings=settings,
                client=self._client,
                runtime=self.runtime,
                recorder=self._recorder,
                services=self._services,
                objects=objects,
                volumes=Volumes(settings.root, self._client, objects, capacity),
                addresses=addresses,
                handlers=handlers,
                barrier=barrier,
                allocatable=capacity,
                has_app_armor=kernel_has_app_armor(),
            )
            reporter = NodeReporter(settings, self._client, self._recorder, capacity)
            self._tasks.create_task(self._recorder.run())
            self._tasks.create_task(self._follow_exits())
            await self._list_runtime()
            for uid, sandbox in self._sandboxes.items():
                addresses.claim(uid, sandbox.ips)
            await reporter.register()
            if reason := (await self.runtime.find_features()).limits:
                reporter.warn_of_limits(reason)
            self._tasks.create_task(reporter.run())
            self._tasks.create_task(self._services.run())
            await self._services.wait_synced()  # a container's environment names every Service there is
            self._pods.on_change(self._pod_changed)
            self._tasks.create_task(self._pods.run())
            await self._pods.wait_synced()
            await self._remove_orphans()
            self._tasks.create_task(self._relist_now_and_then())

    # --- Pods -------------------------------------------------------------------------------------------

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            worker = self._workers.get(old.metadata.uid)
            self._finished.discard(old.metadata.uid)
            if worker is not None:
                worker.removed()
        if new is None or self._parts is None or new.metadata.uid in self._finished:
            return
        uid = new.metadata.uid
        worker = self._workers.get(uid)
        if worker is not None:
            worker.observe(new)
            return
        self._workers[uid] = worker = PodWorker(
            self._parts, new, self._sandboxes.pop(uid, None), self._found.pop(uid, [])
        )
        self._tasks.create_task(self._work(worker))

    async def _work(self, worker: PodWorker) -> None:
        """Run a worker to its end. A bug in one pod's life must not stop the others."""
        uid = worker.pod.metadata.uid
        while True:
            try:
                await worker.run()
                break
            except Exception:
                log.exception("pod %s: unexpected trouble, starting over in a while", worker.pod.key)
            await asyncio.sleep(_WORKER_RESTART_SECONDS)
        self._workers.pop(uid, None)
        current = self._pods.get(worker.pod.key)
        if current is not None and current.metadata.uid == uid:
            self._finished.add(uid)
        shutil.rmtree(self._settings.log_directory(worker.pod), ignore_errors=True)

    def _reference_changed(self, pod_uid: str) -> None:
        worker = self._workers.get(pod_uid)
        if worker is not None:
            worker.references_changed()

    # --- The runtime ------------------------------------------------------------------------------------

    async def _follow_exits(self) -> None:
        connected = True
        while True:
            try:
                async for info in self.runtime.exits():
                    worker = self._workers.get(info.pod_uid)
                    if worker is not None:
                        worker.container_changed(info)
                    elif info.pod_uid in self._found:
                        others = [c for c in self._found[info.pod_uid] if c.name != info.name]
                        self._found[info.pod_uid] = [*others, info]
            except RuntimeFailure as error:
                if connected:
                    log.warning("the runtime does not answer, trying again: %s", error)
                connected = False
            await asyncio.sleep(_RECONNECT_SECONDS)
            try:
                await self._tell_workers()
                connected = True
            except RuntimeFailure:
                connected = False

    async def _relist_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(RELIST_SECONDS)
            try:
                await self._tell_workers()
            except RuntimeFailure as error:
                log.debug("runtime not listed: %s", error)

    async def _list_runtime(self) -> None:
        self._sandboxes = {s.pod_uid: s for s in await self.runtime.list_sandboxes()}
        self._found = {}
        for info in await self.runtime.list_containers():
            self._found.setdefault(info.pod_uid, []).append(info)

    async def _tell_workers(self) -> None:
        """Compare what the runtime has with what the workers believe."""
        # A sandbox made while the runtime is asked may be missing from the answer; it is not lost for that.
        known = [(uid, worker, worker.sandbox) for uid, worker in self._workers.items()]
        sandboxes = {s.pod_uid: s for s in await self.runtime.list_sandboxes()}
        containers: dict[str, list[ContainerInfo]] = {}
        for info in await self.runtime.list_containers():
            containers.setdefault(info.pod_uid, []).append(info)
        for uid, worker, sandbox in known:
            if worker.sandbox is sandbox:
                worker.runtime_listed(sandboxes.get(uid), containers.get(uid, []))

    async def _remove_orphans(self) -> None:
        """Pods that were deleted while no kubelet ran: stop what is left of them."""
        orphans = [uid for uid in self._sandboxes if uid not in self._workers]
        for uid in orphans:
            self._tasks.create_task(self._remove_orphan(uid, self._found.get(uid, [])))
        for entry in _entries(self._settings.root / "pods"):
            if entry.name not in self._workers and entry.name not in orphans:
                await asyncio.to_thread(remove_pod_directory, entry)
        for entry in _entries(self._settings.root / "logs"):
            if entry.name.rpartition("_")[2] not in self._workers:
                await asyncio.to_thread(shutil.rmtree, entry, ignore_errors=True)

    async def _wait_exited(self, ids: set[str], seconds: float) -> None:
        """Until none of these containers, which no worker follows, runs any more; at most `seconds`."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while ids and loop.time() < until:
            await asyncio.sleep(_ORPHAN_POLL_SECONDS)
            ids &= {info.id for info in await self.runtime.list_containers() if info.state == "running"}

    async def _remove_orphan(self, uid: str, found: list[ContainerInfo]) -> None:
        sandbox = self._sandboxes[uid]
        log.info("pod %s/%s is gone from the API server: removing it", sandbox.namespace, sandbox.name)
        try:
            running = [info for info in found if info.state == "running"]
            for info in running:
                await self.runtime.signal_container(info.id, signal.SIGTERM)
            if running:
                await self._wait_exited({info.id for info in running}, _ORPHAN_GRACE_SECONDS)
            await self.runtime.remove_sandbox(uid)
        except RuntimeFailure as error:
            log.warning("pod %s/%s: not removed: %s", sandbox.namespace, sandbox.name, error)
            return
        if self._parts is not None:
            self._parts.addresses.release(uid)
            await self._parts.volumes.remove(uid)
        self._found.pop(uid, None)
        self._sandboxes.pop(uid, None)


def _entries(directory: Path) -> list[Path]:
    return list(directory.iterdir()) if directory.is_dir() else []
