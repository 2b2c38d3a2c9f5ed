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
from bridgehead.objects.core import Pod
from bridgehead.objects.kinds import CONFIG_MAPS, DAEMON_SETS, LEASES, NODES, PODS, SERVICE_ACCOUNTS, Kind
from bridgehead.objects.times import parse_time

from . import registry
from .errors import StartFailed
from .plan import API_PORT, LAB_ADDRESS, POD_RANGE, SERVICE_RANGE, LabConfig, LabFiles

_LOOK_EVERY = 0.05
_KINDS: dict[str, Kind[Any]] = {kind.name: kind for kind in (SERVICE_ACCOUNTS, CONFIG_MAPS, DAEMON_SETS)}
_NODE_LEASES = "kube-node-lease"

Report = Callable[[str], None]


def system_manifests() -> list[dict[str, Any]]:
    """The objects of kube-system, as plain objects."""
    text = resources.files(__package__).joinpath("manifests/kube-proxy.yaml").read_text("utf-8")
    filled = Template(text).substitute(
        pod_range=POD_RANGE,
        service_range=SERVICE_RANGE,
        api_server=f"https://{LAB_ADDRESS}:{API_PORT}",
        version=__version__,
    )
    return list(yaml.safe_load_all(filled))


async def bring_up(config: LabConfig, files: LabFiles, report: Report, *, bound: float = 60.0) -> None:
    """Wait until the lab is ready, telling `report` what is waited for. Raises `StartFailed` after `bound` seconds.

    Ready means: every node is Ready and every node's proxy has programmed its kernel, both since this start; what the
    store remembers from the run before does not count.
    """
    started_at = registry.read_running(files).started_at
    waiting = "the API server"
    deadline = time.monotonic() + bound
    report(waiting)
    async with ApiClient(load_kubeconfig(files.kubeconfig)) as client:
        installed = False
        while time.monotonic() < deadline:
            _check_parts(files)
            try:
                if not installed:
                    await _install(client)
                    await _forget_nodes(client, config)
                    installed = True
                missing = await _missing(client, config, started_at)
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


async def _install(client: ApiClient) -> None:
    """Create what is not there yet; what the user has changed since stays as it is."""
    for manifest in system_manifests():
        try:
            await client.create(_KINDS[manifest["kind"]], manifest)
        except AlreadyExists:
            continue


async def _forget_nodes(client: ApiClient, config: LabConfig) -> None:
    """Delete the Nodes of a run that had more of them: nobody else would, and their pods would wait for ever.

    Only those of the lab's making: a Node that the user wrote stays.
    """
    for node in (await client.list(NODES)).items:
        number = node.metadata.name.removeprefix("node")
        if number.isdecimal() and int(number) > config.nodes:
            with contextlib.suppress(NotFound):
                await client.delete(NODES, node.metadata.name)


async def _missing(client: ApiClient, config: LabConfig, started_at: float) -> str | None:
    """What is not ready yet, in words; None when everything is."""
    leases = (await client.list(LEASES, _NODE_LEASES)).items
    alive = {lease.metadata.name for lease in leases if _is_since(lease.spec.renew_time, started_at)}
    nodes = (await client.list(NODES)).items
    ready = sum(node.is_ready and node.metadata.name in alive for node in nodes)
    if ready < config.nodes:
        return f"nodes ({ready} of {config.nodes} ready)"
    pods = (await client.list(PODS, "kube-system", label_selector="k8s-app=kube-proxy")).items
    proxies = sum(pod.is_ready and _runs_since(pod, started_at) for pod in pods)
    if proxies < config.nodes:
        return f"kube-proxy ({proxies} of {config.nodes} ready)"
    return None


def _runs_since(pod: Pod, started_at: float) -> bool:
    states = [status.state.running for status in pod.status.container_statuses]
    return all(running is not None and _is_since(running.started_at, started_at) for running in states)


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
