"""Start of a lab's cluster: its system objects, and the wait until all is ready. Uses the API as any client does."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import msgspec

from bridgehead.client import ApiClient, Informer, load_kubeconfig, running
from bridgehead.client.errors import ApiError, ClientError, NotFound
from bridgehead.objects.core import Node, Pod
from bridgehead.objects.kinds import (
    DEPLOYMENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
)
from bridgehead.objects.times import parse_time

from . import state_directories
from .corefile_change import change_corefile
from .earlier_names import DNS, EarlierDns
from .errors import NotRunning, StartFailed
from .plan import LabConfig, LabFiles
from .system_objects import KINDS, Installer, all_of, system_manifests

_LOOK_EVERY = 0.2  # seconds, when nothing changes: a part can end, and nodes of a previous run get pods


Report = Callable[[str], None]


@dataclass(frozen=True)
class _AddOn:
    """Workloads of kube-system that a lab has or has not. The pods have their names as labels.

    `clean_up` removes what its pods have written into other objects, once they are gone.
    """

    title: str
    files: tuple[str, ...]
    daemon_sets: tuple[str, ...]
    deployments: tuple[str, ...] = ()
    clean_up: Callable[[ApiClient], Coroutine[Any, Any, object]] | None = None

    @property
    def workloads(self) -> tuple[str, ...]:
        return (*self.daemon_sets, *self.deployments)


async def _clean_up_balancer(client: ApiClient) -> None:
    from bridgehead.balancer.controller.cleanup import clean_up  # few labs lose their balancer
    from bridgehead.balancer.heartbeat_key import OWN_NAMESPACE

    await clean_up(client, OWN_NAMESPACE, keeps_definitions=True)


_NODE_DNS = _AddOn("the DNS on each node", ("node-dns.yaml",), ("bridgehead-node-dns",))
_BALANCER = _AddOn(
    "the load balancer",
    ("balancer-rbac.yaml", "balancer.yaml"),
    ("bridgehead-speaker",),
    ("bridgehead-balancer",),
    clean_up=_clean_up_balancer,
)


async def bring_up(config: LabConfig, files: LabFiles, report: Report, *, bound: float = 120.0) -> None:
    """Wait until the lab is ready and `report` what is missing. Raises `StartFailed` after `bound` seconds.

    Ready means: every node is Ready, every node's proxy has programmed its kernel, and names are answered, all since
    this start; the state of the previous run does not count. Proxies and DNS servers that cannot start delay nothing.
    """
    started_at = _started_at(files)
    waiting = "the API server"
    deadline = time.monotonic() + bound
    report(waiting)
    async with ApiClient(load_kubeconfig(files.kubeconfig)) as client:
        observed = ObservedCluster(client)
        start = _Start(client, observed, config, started_at)
        async with running(observed):
            while time.monotonic() < deadline:
                _check_parts(files)
                try:
                    missing = await start.missing() if observed.is_synced else "the API server"
                except ApiError as error:
                    missing = f"the API server, which answers: {error}"
                except ClientError:
                    missing = "the API server"
                if missing is None:
                    return
                if missing != waiting:
                    waiting = missing
                    report(waiting)
                await observed.wait_changed(_LOOK_EVERY)
    raise StartFailed(f"not ready after {bound:.0f} s: still waiting for {waiting}; `bridgehead logs` shows the parts")


class _Start:
    """The missing parts of a starting lab, and the installation of its system objects, in the possible order."""

    def __init__(self, client: ApiClient, observed: ObservedCluster, config: LabConfig, started_at: float) -> None:
        self._client = client
        self._observed = observed
        self._config = config
        self._started_at = started_at
        self._installer = Installer(client, config)
        self._leaving: set[_AddOn] = set()  # those of which a previous run had objects
        self._removed: set[_AddOn] = set()
        self._forgotten: set[str] = set()  # Nodes of a previous run
        self._earlier_dns = EarlierDns(client, KINDS)
        self._has_settled_names = False
        self._has_reported_dns = False
        self._has_reported_proxies = False
        self._dns_replicas: int | None = None  # read once

    async def missing(self) -> str | None:
        """Return what is not ready yet, as text; None when the lab is ready."""
        has_node_dns, has_balancer = self._config.node_dns, self._config.balancer
        await self._earlier_dns.keep_settings()
        await all_of(
            self._installer.install("kube-proxy.yaml"),
            self._installer.install("storage.yaml"),
            self._installer.install("warnings.yaml"),
            self._installer.install("dns.yaml", workloads=False),
            self._settle(_NODE_DNS, has_node_dns),
            self._settle(_BALANCER, has_balancer),
        )
        missing = await self._missing_nodes() or await self._earlier_dns.missing()
        if missing is not None:
            return missing
        await self._settle_outside_names()
        # The DNS comes last: its pods need several nodes to spread over.
        await self._installer.install("dns.yaml")
        await self._earlier_dns.finish()
        missing = self._missing_proxies() or await self._missing_dns()
        missing = missing or (self._missing_pods if has_node_dns else self._unremoved)(_NODE_DNS)
        return missing or (await self._missing_balancer() if has_balancer else self._unremoved(_BALANCER))

    async def _settle_outside_names(self) -> None:
        """Let the DNS of a previous run forward names outside of the cluster, or no longer."""
        if not self._has_settled_names:
            shipped, other = (
                next(one for one in system_manifests("dns.yaml", config) if one["kind"] == "ConfigMap")
                for config in (self._config, msgspec.structs.replace(self._config, outside=not self._config.outside))
            )
            await change_corefile(self._client, shipped, other, is_outside=self._config.outside)
            self._has_settled_names = True

    async def _missing_nodes(self) -> str | None:
        leases = self._observed.node_leases.items()
        alive = {lease.metadata.name for lease in leases if _is_since(lease.spec.renew_time, self._started_at)}
        nodes = list(self._observed.nodes.items())
        await self._forget_nodes(nodes)
        ready = sum(node.is_ready and node.metadata.name in alive for node in nodes)
        return f"nodes ({ready} of {self._config.nodes} ready)" if ready < self._config.nodes else None

    async def _forget_nodes(self, nodes: list[Node]) -> None:
        """Delete the Nodes of a previous run that had more of them, and their pods, which no controller would delete
        soon.

        Nodes that the user created stay. Nodes are deleted before their pods, and pods at every look, because the
        scheduler may place the pods' successors on a Node of whose deletion it does not know yet.
        """
        for node in nodes:
            name = node.metadata.name
            number = name.removeprefix("node")
            if number.isdecimal() and int(number) > self._config.nodes:
                self._forgotten.add(name)
                with contextlib.suppress(NotFound):
                    await self._client.delete(NODES, name)
        for name in self._forgotten:
            for pod in (await self._client.list(PODS, field_selector=f"spec.nodeName={name}")).items:
                with contextlib.suppress(NotFound):
                    # Grace period 0: no kubelet is left to stop it.
                    meta = pod.metadata
                    await self._client.delete(PODS, meta.name, meta.namespace, uid=meta.uid, grace_period_seconds=0)

    def _missing_proxies(self) -> str | None:
        """Return what the service proxies lack. Proxies that cannot start (an invalid ConfigMap) delay no lab."""
        pods = self._observed.pods_of("kube-proxy")
        ready, crashing = sum(map(self._serves, pods)), sum(map(_is_crashing, pods))
        if ready + crashing < self._config.nodes:
            return f"kube-proxy ({ready} of {self._config.nodes} ready)"
        if crashing and not self._has_reported_proxies:
            self._has_reported_proxies = True
            return f"kube-proxy, which does not start on {crashing} nodes: `bridgehead status` shows why"
        return None

    async def _missing_dns(self) -> str | None:
        """Return what the cluster DNS lacks. Servers that cannot start (an invalid Corefile) delay no lab."""
        if self._dns_replicas is None:
            try:
                self._dns_replicas = (await self._client.get(DEPLOYMENTS, DNS, "kube-system")).spec.replicas
            except NotFound:
                return None
        wanted, pods = self._dns_replicas, self._observed.pods_of("kube-dns")
        ready, crashing = sum(map(self._serves, pods)), sum(map(_is_crashing, pods))
        if ready + crashing < wanted:
            return f"kube-dns ({ready} of {wanted} ready)"
        if crashing and not self._has_reported_dns:
            self._has_reported_dns = True
            return "no kube-dns pods, because they do not start: kubectl -n kube-system logs -l k8s-app=kube-dns"
        return None

    async def _settle(self, add_on: _AddOn, is_wanted: bool) -> None:
        """Install an add-on, or remove that of a previous run."""
        if is_wanted:
            for file in add_on.files:
                await self._installer.install(file)
        elif add_on not in self._removed:
            manifests = [one for file in add_on.files for one in system_manifests(file, self._config)]
            for manifest in reversed(manifests):
                kind, meta = KINDS[manifest["kind"]], manifest["metadata"]
                if kind is not NAMESPACES:  # one may have objects of the user's
                    with contextlib.suppress(NotFound):
                        await self._client.delete(kind, meta["name"], meta.get("namespace", ""))
                        self._leaving.add(add_on)
            if any(self._observed.pods_of(name) for name in add_on.workloads):
                return  # they would write it again
            if add_on.clean_up is not None and add_on in self._leaving:  # a user can have one without the lab's
                await add_on.clean_up(self._client)
            self._removed.add(add_on)

    def _unremoved(self, add_on: _AddOn) -> str | None:
        return None if add_on in self._removed else f"the removal of {add_on.title}"

    def _missing_pods(self, add_on: _AddOn) -> str | None:
        """Return what an add-on lacks; pods that cannot start do not delay the lab."""
        counts = [(name, self._config.nodes) for name in add_on.daemon_sets] + [
            (name, 1) for name in add_on.deployments
        ]
        for name, wanted in counts:
            pods = self._observed.pods_of(name)
            ready, crashing = sum(map(self._serves, pods)), sum(map(_is_crashing, pods))
            if ready + crashing < wanted:
                return f"{add_on.title} ({ready} of {wanted} ready)"
        return None

    async def _missing_balancer(self) -> str | None:
        """Return what the load balancer lacks: its pods, or the pool, whose definition its controller installs."""
        missing = self._missing_pods(_BALANCER)
        if missing is None:
            try:
                await self._installer.install("pool.yaml")
            except NotFound:
                controllers = [pod for name in _BALANCER.deployments for pod in self._observed.pods_of(name)]
                if not any(map(_is_crashing, controllers)):
                    missing = f"{_BALANCER.title} (no definitions of pools yet)"
        return missing

    def _serves(self, pod: Pod) -> bool:
        states = [status.state.running for status in pod.status.container_statuses]
        return pod.is_ready and all(
            running is not None and _is_since(running.started_at, self._started_at) for running in states
        )


def _is_crashing(pod: Pod) -> bool:
    states = [status.state.waiting for status in pod.status.container_statuses]
    return any(waiting is not None and waiting.reason == "CrashLoopBackOff" for waiting in states)


def _is_since(time_text: str | None, moment: float) -> bool:
    """Return whether the time is not before the start. Times of the API can be whole seconds."""
    return time_text is not None and parse_time(time_text) >= int(moment)


def _started_at(files: LabFiles) -> float:
    """Return when the lab was started, in seconds since the epoch. Raises `StartFailed` if it has already ended."""
    try:
        return state_directories.read_running(files).started_at
    except NotRunning:
        raise _first_process_ended(files) from None


def _check_parts(files: LabFiles) -> None:
    if not state_directories.is_running(files):
        raise _first_process_ended(files)
    for part in state_directories.read_parts(files):
        if part.restarts >= 5 and not part.pid:
            raise StartFailed(f"{part.name} does not start: {last_log_line(files, part.name)}")


def _first_process_ended(files: LabFiles) -> StartFailed:
    return StartFailed(f"the lab's first process ended: {last_log_line(files, 'init')}")


def last_log_line(files: LabFiles, part: str) -> str:
    """Return the last line of a part's log."""
    try:
        lines = files.log(part).read_text("utf-8", errors="replace").strip().splitlines()
    except OSError:
        lines = []
    return lines[-1] if lines else "it left no message"


class ObservedCluster:
    """The nodes, their Leases and the system pods, by which the start of a lab is judged; current while `run` runs."""

    def __init__(self, client: ApiClient) -> None:
        self.nodes = Informer(client, NODES)
        self.node_leases = Informer(client, LEASES, "kube-node-lease")
        self.pods = Informer(client, PODS, "kube-system")
        self.is_synced = False
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Follow the objects until cancelled."""
        informers: tuple[Informer[Any], ...] = (self.nodes, self.node_leases, self.pods)
        async with asyncio.TaskGroup() as tasks:
            for informer in informers:
                tasks.create_task(informer.run())
            for informer in informers:
                await informer.wait_synced()
                informer.on_change(lambda _old, _new: self._changed.set())
            self.is_synced = True
            self._changed.set()

    def pods_of(self, app: str) -> list[Pod]:
        """Return the system pods with this label `k8s-app`."""
        return [pod for pod in self.pods.items() if pod.metadata.labels.get("k8s-app") == app]

    async def wait_changed(self, seconds: float) -> None:
        """Wait until an object has changed since the last call, for `seconds` at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        self._changed.clear()
