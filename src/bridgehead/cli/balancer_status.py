"""Tables of `bridgehead balancer status`: speakers, addresses, Services without one, BGP sessions and takeovers."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from bridgehead.client import ApiClient, ClientConfig, load_kubeconfig
from bridgehead.client.errors import ClientError
from bridgehead.insight import speakers
from bridgehead.objects.kinds import SERVICES

from .cluster_choice import find_kubeconfig
from .exit_codes import fail, reporting_failures
from .lab_options import reporting_errors
from .tables import columns


def show_status(kubeconfig: Path | None, name: str | None, state_dir: Path | None) -> None:
    """Print the tables of the cluster of `kubeconfig`, or of the lab `name`. Exits 1 without speakers."""
    with reporting_errors():
        path, context = find_kubeconfig(kubeconfig, name, state_dir)
    with reporting_failures("balancer", ClientError):
        sys.stdout.write(asyncio.run(_tables(load_kubeconfig(path, context))))


async def _tables(config: ClientConfig) -> str:
    async with ApiClient(config, "bridgehead-balancer") as client:
        other = await speakers.find_other_balancer(client)
        if other:
            return f"The pod {other} is another balancer: this one gives out and announces no address meanwhile.\n"
        reports = await speakers.read_speakers(client)
        services = (await client.list(SERVICES)).items
    if not reports:
        hint = "a lab gets them by `bridgehead up --balancer`"
        fail("balancer", f"no speakers: no pods with the label {speakers.SELECTOR} run on any node; {hint}")
    now = time.time()
    tables = [
        speakers.speaker_rows(reports),
        speakers.address_rows(reports, now),
        speakers.silent_rows(services),
        speakers.session_rows(reports, now),
        speakers.takeover_rows(reports, now),
    ]
    return "\n".join(columns(rows) for rows in tables if len(rows) > 1)
