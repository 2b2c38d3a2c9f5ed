"""Show which clusters there are, and of a running one its nodes and parts. Exits 1 when the named one does not run."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from typing import Annotated

import typer

from bridgehead.lab import registry
from bridgehead.lab.errors import NotRunning
from bridgehead.lab.plan import LabFiles
from bridgehead.lab.supervisor import PartStatus

from .lab_options import DEFAULT_NAME, StateDir, reporting_errors

Row = Sequence[str]

_API_SECONDS = 30  # a machine that is busy with something else may take long


def command(
    name: Annotated[str | None, typer.Option("--name", envvar="BRIDGEHEAD_NAME", help="Only this lab.")] = None,
    state_dir: StateDir = None,
) -> None:
    with reporting_errors():
        if name or state_dir:
            sys.stdout.write(_describe(registry.find_files(name or DEFAULT_NAME, state_dir)))
            return
        labs = registry.list_labs()
        running = [files for files in labs.values() if registry.is_running(files)]
        for files in running:
            try:
                sys.stdout.write(_describe(files))
            except NotRunning as error:  # it is only starting, or ended just now: the others are still of interest
                sys.stdout.write(f"{error}\n")
        stopped = [name for name, files in labs.items() if files not in running]
        if stopped:
            sys.stdout.write(f"Stopped: {', '.join(stopped)}.\n")
        if not running:
            raise NotRunning("no lab is running; `bridgehead up` starts one")


def _describe(files: LabFiles) -> str:
    lab = registry.read_running(files)
    first = (
        f'Lab "{lab.config.name}": up for {_age(time.time() - lab.started_at)}, API at'
        f" https://127.0.0.1:{lab.config.port}, KUBECONFIG={files.kubeconfig}"
        + (", a DNS on each node" if lab.config.node_dns else "")
    )
    return f"{first}\n{asyncio.run(_nodes(files, lab.config.context))}{_parts(registry.read_parts(files))}"


async def _nodes(files: LabFiles, context: str) -> str:
    """In the lab, whichever cluster its user has made the current one in this kubeconfig."""
    from bridgehead.client import ApiClient, load_kubeconfig
    from bridgehead.client.errors import ApiError, ClientError
    from bridgehead.objects.kinds import NODES, PODS

    try:
        async with ApiClient(load_kubeconfig(files.kubeconfig, context)) as client, asyncio.timeout(_API_SECONDS):
            nodes = (await client.list(NODES)).items
            pods = (await client.list(PODS)).items
    except TimeoutError:
        return f"The API server does not answer within {_API_SECONDS} s.\n"
    except (ApiError, ClientError) as error:
        return f"The API server does not answer: {error}\n"
    rows = [
        (
            node.metadata.name,
            "Ready" if node.is_ready else "NotReady",
            ", ".join(node.internal_ips),
            str(sum(pod.spec.node_name == node.metadata.name for pod in pods)),
        )
        for node in nodes
    ]
    return columns([("NODE", "STATUS", "ADDRESS", "PODS"), *rows])


def _parts(parts: Sequence[PartStatus]) -> str:
    rows = [
        (part.name, str(part.pid) if part.pid else "waiting", str(part.restarts), part.last_exit or "-")
        for part in parts
    ]
    return columns([("PART", "PID", "RESTARTS", "LAST EXIT"), *rows])


def columns(rows: Sequence[Row]) -> str:
    """Lines of text, each column as wide as its widest cell and never cut: also for those who read them with `awk`."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "".join(f"{line}\n" for line in lines)


def _age(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m" if hours else f"{minutes}m{rest}s" if minutes else f"{rest}s"
