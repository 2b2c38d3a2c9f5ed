"""Show which clusters there are, and of a running one its nodes and parts. Exits 1 when the named one does not run."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bridgehead.lab import registry
from bridgehead.lab.errors import NotRunning
from bridgehead.lab.plan import LabFiles

from .lab_options import DEFAULT_NAME, StateDir, reporting_errors


def command(
    name: Annotated[str | None, typer.Option("--name", envvar="BRIDGEHEAD_NAME", help="Only this lab.")] = None,
    state_dir: StateDir = None,
) -> None:
    with reporting_errors():
        console = Console(highlight=False)
        if name or state_dir:
            files = registry.find_files(name or DEFAULT_NAME, state_dir)
            registry.read_running(files)
            _show(console, files)
            return
        labs = registry.list_labs()
        running = [files for files in labs.values() if registry.is_running(files)]
        for files in running:
            try:
                _show(console, files)
            except NotRunning as error:  # it is only starting, or ended just now: the others are still of interest
                console.print(str(error), soft_wrap=True)
        stopped = [name for name, files in labs.items() if files not in running]
        if stopped:
            console.print(f"Stopped: {', '.join(stopped)}.")
        if not running:
            raise NotRunning("no lab is running; `bridgehead up` starts one")


def _show(console: Console, files: LabFiles) -> None:
    lab = registry.read_running(files)
    console.print(
        f'Lab "{lab.config.name}": up for {_age(time.time() - lab.started_at)}, API at'
        f" https://127.0.0.1:{lab.config.port}, KUBECONFIG={files.kubeconfig}"
        + (", a DNS on each node" if lab.config.node_dns else ""),
        soft_wrap=True,
    )
    table = Table("NODE", "STATUS", "ADDRESS", "PODS", box=None, pad_edge=False)
    for row in asyncio.run(_nodes(files)):
        table.add_row(*row)
    console.print(table)
    parts = Table("PART", "PID", "RESTARTS", "LAST EXIT", box=None, pad_edge=False)
    for part in registry.read_parts(files):
        parts.add_row(part.name, str(part.pid) if part.pid else "waiting", str(part.restarts), part.last_exit)
    console.print(parts)


async def _nodes(files: LabFiles) -> list[tuple[str, ...]]:
    from bridgehead.client import ApiClient, load_kubeconfig
    from bridgehead.client.errors import ApiError, ClientError
    from bridgehead.objects.kinds import NODES, PODS

    try:
        async with ApiClient(load_kubeconfig(files.kubeconfig)) as client, asyncio.timeout(5):
            nodes = (await client.list(NODES)).items
            pods = (await client.list(PODS)).items
    except (ApiError, ClientError, TimeoutError) as error:
        return [("?", f"the API server does not answer: {error}", "", "")]
    return [
        (
            node.metadata.name,
            "Ready" if node.is_ready else "NotReady",
            ", ".join(node.internal_ips),
            str(sum(pod.spec.node_name == node.metadata.name for pod in pods)),
        )
        for node in nodes
    ]


def _age(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m" if hours else f"{minutes}m{rest}s" if minutes else f"{rest}s"
