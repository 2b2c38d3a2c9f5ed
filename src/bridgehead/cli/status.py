"""Show the clusters on this machine, and of each running one its nodes and parts, and how many Services do not work.

Exits 1 when the named cluster does not run, or no cluster runs.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from typing import Annotated

import typer

from bridgehead.lab import state_directories
from bridgehead.lab.errors import NotRunning
from bridgehead.lab.gateway import gateway_lock
from bridgehead.lab.gateway.description import describe_state
from bridgehead.lab.plan import LabConfig, LabFiles, PartStatus
from bridgehead.lab.range_choice import describe_ranges

from .lab_options import DEFAULT_NAME, StateDir, options_of, own_command, reporting_errors
from .tables import columns

_API_SECONDS = 30  # generous, for a busy machine
_MOST_NAMES = 3  # of Services in trouble


def command(
    name: Annotated[str | None, typer.Option("--name", envvar="BRIDGEHEAD_NAME", help="Show only this lab.")] = None,
    state_dir: StateDir = None,
) -> None:
    with reporting_errors():
        if name or state_dir:
            sys.stdout.write(_describe(state_directories.find_files(name or DEFAULT_NAME, state_dir)))
            return
        running = state_directories.list_running()
        for index, files in enumerate(running.values()):
            try:
                text = _describe(files)
            except NotRunning as error:  # this lab is starting or has just ended; show the others
                text = f"{error}\n"
            sys.stdout.write(f"\n{text}" if index else text)
        stopped = [name for name in state_directories.list_labs() if name not in running]
        if running and stopped:
            sys.stdout.write("\n")
        for lab_name in stopped:
            sys.stdout.write(f'Lab "{lab_name}": stopped, `{own_command()} up{options_of(lab_name, None)}` starts it\n')
        if not running:
            raise NotRunning("no lab is running" if stopped else "no lab is running; `bridgehead up` starts one")


def _describe(files: LabFiles) -> str:
    lab = state_directories.read_running(files)
    first = (
        f'Lab "{lab.config.name}": up for {_age(time.time() - lab.started_at)}, API at'
        f" https://127.0.0.1:{lab.config.port}, KUBECONFIG={files.kubeconfig}"
        + (f", {lab.config.api_servers} API servers" if lab.config.api_servers > 1 else "")
        + (", on etcd" if lab.config.store == "etcd" else "")
        + (", a DNS on each node" if lab.config.node_dns else "")
        + ("" if lab.config.balancer else ", without a load balancer")
        + f"\nAddresses: {describe_ranges(lab.config.ranges)}"
    )
    gateway = describe_state(lab.config, is_running=gateway_lock.is_running(files))
    first = "\n".join([first, *gateway])
    return f"{first}\n{asyncio.run(_cluster(files, lab.config))}{_parts(state_directories.read_parts(files))}"


async def _cluster(files: LabFiles, config: LabConfig) -> str:
    """Return the table of nodes, the problems of their proxies and the Services in trouble. The context is always the
    lab's own."""
    from bridgehead.client import ApiClient, load_kubeconfig
    from bridgehead.client.errors import ApiError, ClientError
    from bridgehead.insight.proxies import proxy_states
    from bridgehead.insight.troubled_services import find_troubled_services
    from bridgehead.objects import progress
    from bridgehead.objects.kinds import LEASES, NODES, PODS

    try:
        async with (
            ApiClient(load_kubeconfig(files.kubeconfig, config.context)) as client,
            asyncio.timeout(_API_SECONDS),
        ):
            nodes = (await client.list(NODES)).items
            pods = (await client.list(PODS)).items
            leases = (await client.list(LEASES, progress.NAMESPACE, label_selector=progress.SELECTOR)).items
            troubled = [str(key) for key in await find_troubled_services(client)]
    except TimeoutError:
        return f"The API server does not answer within {_API_SECONDS} s.\n"
    except (ApiError, ClientError) as error:
        return f"The API server does not answer: {error}\n"
    proxies = proxy_states((node.metadata.name for node in nodes), pods, leases)
    rows = [
        (
            node.metadata.name,
            "Ready" if node.is_ready else "NotReady",
            ", ".join(node.internal_ips),
            str(sum(pod.spec.node_name == node.metadata.name for pod in pods)),
            proxies[node.metadata.name].mode,
        )
        for node in nodes
    ]
    problems: dict[str, list[str]] = {}
    for node, state in proxies.items():
        if state.problem:
            problems.setdefault(state.problem, []).append(node)
    texts = (f"{', '.join(names)}: the service proxy {problem}\n" for problem, names in problems.items())
    return (
        columns([("NODE", "STATUS", "ADDRESS", "PODS", "PROXY MODE"), *rows])
        + "".join(texts)
        + _describe_troubled(config.name, troubled)
    )


def _describe_troubled(lab: str, services: Sequence[str]) -> str:
    if not services:
        return ""
    more = f" and {len(services) - _MOST_NAMES} more" if len(services) > _MOST_NAMES else ""
    names = ", ".join(services[:_MOST_NAMES]) + more
    doctor = f"{own_command()} doctor{options_of(lab, None)}"
    return f"Services in trouble: {len(services)} ({names}); `{doctor}` explains them\n"


def _parts(parts: Sequence[PartStatus]) -> str:
    rows = [
        (part.name, str(part.pid) if part.pid else "waiting", str(part.restarts), part.last_exit or "-")
        for part in parts
    ]
    return columns([("PART", "PID", "RESTARTS", "LAST EXIT"), *rows])


def _age(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m" if hours else f"{minutes}m{rest}s" if minutes else f"{rest}s"
