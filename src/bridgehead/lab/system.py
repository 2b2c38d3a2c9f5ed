"""What a fresh cluster needs inside it, and when a lab counts as ready. Talks to the API as any user does."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from importlib import resources
from string import Template
from typing import Any

import yaml

from bridgehead import __version__
from bridgehead.client import ApiClient, load_kubeconfig
from bridgehead.client.errors import AlreadyExists, ApiError, ClientError, NotFound
from bridgehead.objects import progress
from bridgehead.objects.core import Node, Pod
from bridgehead.objects.kinds import (
    CONFIG_MAPS,
    DAEMON_SETS,
    DEPLOYMENTS,
    LEASES,
    NODES,
    PODS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Kind,
)
from bridgehead.objects.times import parse_time

from . import registry
from .addressing import api_url
from .errors import StartFailed
from .plan import CLUSTER_DOMAIN, LabConfig, LabFiles, plan_nodes

_LOOK_EVERY = 0.05
_KINDS: dict[str, Kind[Any]] = {
    kind.name: kind for kind in (SERVICE_ACCOUNTS, CONFIG_MAPS, SERVICES, DAEMON_SETS, DEPLOYMENTS)
}
_DNS = "bridgehead-dns"
_NODE_DNS = "bridgehead-node-dns"
_NODE_LEASES = "kube-node-lease"

Report = Callable[[str], None]


def system_manifests(file: str, config: LabConfig) -> list[dict[str, Any]]:
    """The objects of kube-system in one file of `manifests/`, as plain objects."""
    text = resources.files(__package__).joinpath("manifests", file).read_text("utf-8")
    filled = Template(text).substitute(
        pod_range=",".join(ranges.pods for ranges in config.ranges),
        service_range=",".join(ranges.services for ranges in config.ranges),
        api_server=api_url(config.ranges),
        cluster_dns=config.ranges[0].cluster_dns,
        cluster_domain=CLUSTER_DOMAIN,
        version=__version__,
    )
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml, where PyYAML has it, needs a tenth of the time
    return list(yaml.load_all(filled, Loader=loader))


async def bring_up(config: LabConfig, files: LabFiles, report: Report, *, bound: float = 120.0) -> None:
    """Wait until the lab is ready, telling `report` what is waited for. Raises `StartFailed` after `bound` seconds.

    Ready means: every node is Ready, every node's proxy has programmed its kernel and names are answered, all since
    this start; what the store remembers from the run before does not count.
    """
    started_at = registry.read_running(files).started_at
    waiting = "the API server"
    deadline = time.monotonic() + bound
    report(waiting)
    async with ApiClient(load_kubeconfig(files.kubeconfig)) as client:
        start = _Start(client, config, started_at)
        while time.monotonic() < deadline:
            _check_parts(files)
            try:
                missing = await start.missing()
            except ApiError as error:
                missing = f"the API server, which says: {error}"
            except ClientError:
                missing = "the API server"
            if missing is None:
                return
            if missing != waiting:
                waiting = missing
                report(waiting)
            await asyncio.sleep(_LOOK_EVERY)
    raise StartFailed(f"not ready after {bound:.0f} s: still waiting for {waiting}; `bridgehead logs` shows the parts")


class _Start:
    """What a lab still lacks, and the installing of what runs in it, in the order in which it can."""

    def __init__(self, client: ApiClient, config: LabConfig, started_at: float) -> None:
        self._client = client
        self._config = config
        self._started_at = started_at
        self._installed: set[str] = set()
        self._has_settled_node_dns = False
        self._told_of_dns = False

    async def missing(self) -> str | None:
        """What is not ready yet, in words; None when everything is."""
        await self._install("kube-proxy.yaml")
        missing = await self._missing_nodes()
        if missing is not None:
            return missing
        missing = await self._missing_proxies()
        # Not before: its pods find more than one node to go to, and the API server at its Service's address. Where that
        # leads nowhere yet, a first connection is lost, and TCP tries again after a whole second.
        if missing is None or await self._is_programmed():
            await self._install("dns.yaml")
            await self._settle_node_dns()
            missing = missing or await self._missing_dns() or await self._missing_node_dns()
        return missing

    async def _install(self, file: str) -> None:
        """Create what is not there yet; what the user has changed since stays as it is."""
        if file in self._installed:
            return
        for manifest in system_manifests(file, self._config):
            kind, meta = _KINDS[manifest["kind"]], manifest["metadata"]
            try:
                # Asked first: to create a Service again is refused for its address, which is taken by itself.
                await self._client.get(kind, meta["name"], meta["namespace"])
            except NotFound:
                with contextlib.suppress(AlreadyExists):
                    await self._client.create(kind, manifest)
        self._installed.add(file)

    async def _missing_nodes(self) -> str | None:
        leases = (await self._client.list(LEASES, _NODE_LEASES)).items
        alive = {lease.metadata.name for lease in leases if _is_since(lease.spec.renew_time, self._started_at)}
        nodes = (await self._client.list(NODES)).items
        await self._forget_nodes(nodes)
        ready = sum(node.is_ready and node.metadata.name in alive for node in nodes)
        return f"nodes ({ready} of {self._config.nodes} ready)" if ready < self._config.nodes else None

    async def _forget_nodes(self, nodes: list[Node]) -> None:
        """Delete the Nodes of a run that had more of them, and their pods: nobody else would, or only much later.

        Only those of the lab's making: a Node that the user wrote stays.
        """
        for node in nodes:
            name = node.metadata.name
            number = name.removeprefix("node")
            if not number.isdecimal() or int(number) <= self._config.nodes:
                continue
            for pod in (await self._client.list(PODS, field_selector=f"spec.nodeName={name}")).items:
                with contextlib.suppress(NotFound):
                    # Without grace: there is no kubelet that would end it.
                    meta = pod.metadata
                    await self._client.delete(PODS, meta.name, meta.namespace, uid=meta.uid, grace_period_seconds=0)
            with contextlib.suppress(NotFound):
                await self._client.delete(NODES, name)

    async def _missing_proxies(self) -> str | None:
        ready = sum(map(self._serves, await self._pods("kube-proxy")))
        return f"kube-proxy ({ready} of {self._config.nodes} ready)" if ready < self._config.nodes else None

    async def _is_programmed(self) -> bool:
        """Every proxy says so, a moment before the probe of its pod finds it."""
        leases = (await self._client.list(LEASES, progress.NAMESPACE, label_selector=progress.SELECTOR)).items
        told = {said.node for said in map(progress.read_progress, leases) if said and said.renewed >= self._started_at}
        return all(node.name in told for node in plan_nodes(self._config))

    async def _missing_dns(self) -> str | None:
        """As many servers as are wished for; one that cannot start (its Corefile is not sound, say) holds up no lab."""
        try:
            wanted = (await self._client.get(DEPLOYMENTS, _DNS, "kube-system")).spec.replicas
        except NotFound:
            return None
        pods = await self._pods("kube-dns")
        ready, crashing = sum(map(self._serves, pods)), sum(map(_is_crashing, pods))
        if ready + crashing < wanted:
            return f"kube-dns ({ready} of {wanted} ready)"
        if crashing and not self._told_of_dns:
            self._told_of_dns = True
            return "kube-dns no longer, which does not start: kubectl -n kube-system logs -l k8s-app=kube-dns"
        return None

    async def _settle_node_dns(self) -> None:
        """Install it, or remove that of a run which had it."""
        if self._config.node_dns:
            await self._install("node-dns.yaml")
        elif not self._has_settled_node_dns:
            with contextlib.suppress(NotFound):
                await self._client.delete(DAEMON_SETS, _NODE_DNS, "kube-system")
            self._has_settled_node_dns = True

    async def _missing_node_dns(self) -> str | None:
        """Those that cannot start hold up no lab: the others serve their nodes, too."""
        pods = await self._pods(_NODE_DNS) if self._config.node_dns else []
        ready, crashing = sum(map(self._serves, pods)), sum(map(_is_crashing, pods))
        if self._config.node_dns and ready + crashing < self._config.nodes:
            return f"the DNS on each node ({ready} of {self._config.nodes} ready)"
        return None

    async def _pods(self, app: str) -> list[Pod]:
        return (await self._client.list(PODS, "kube-system", label_selector=f"k8s-app={app}")).items

    def _serves(self, pod: Pod) -> bool:
        states = [status.state.running for status in pod.status.container_statuses]
        return pod.is_ready and all(
            running is not None and _is_since(running.started_at, self._started_at) for running in states
        )


def _is_crashing(pod: Pod) -> bool:
    states = [status.state.waiting for status in pod.status.container_statuses]
    return any(waiting is not None and waiting.reason == "CrashLoopBackOff" for waiting in states)


def _is_since(time_text: str | None, moment: float) -> bool:
    """Times of the API may be whole seconds."""
    return time_text is not None and parse_time(time_text) >= int(moment)


def _check_parts(files: LabFiles) -> None:
    if not registry.is_running(files):
        raise StartFailed(f"the lab's first process ended: {last_words(files, 'init')}")
    for part in registry.read_parts(files):
        if part.restarts >= 5 and not part.pid:
            raise StartFailed(f"{part.name} does not start: {last_words(files, part.name)}")


def last_words(files: LabFiles, part: str) -> str:
    """The last line of a part's log."""
    try:
        lines = files.log(part).read_text("utf-8", errors="replace").strip().splitlines()
    except OSError:
        lines = []
    return lines[-1] if lines else "it left no message"
