"""Record what a cluster does for a while, to FILE: the objects of its Services, and their changes.

Recorded are Services, EndpointSlices, Endpoints, pods, nodes, namespaces, workloads, NetworkPolicies, Ingresses, ranges
of addresses, Events, the proxies' progress, and the rules and connections of the nodes' kernels. Secrets, values of
environment variables, commands and arguments are never recorded. With --redact, names and addresses are replaced by
others, consistently. With -n or --redact, kernels are left out: they have the names and addresses of all namespaces.
Ctrl-C ends the recording.

`bridgehead replay FILE` rebuilds the Services in a cluster on this machine.

Docs: docs/recording.md.
"""

from __future__ import annotations

import asyncio
import secrets
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bridgehead import __version__
from bridgehead.objects.names import check_dns1123_label

from .cluster_access import Cluster, Kubeconfig, Name, StateDir, choose_cluster
from .exit_codes import fail, reporting_failures
from .parsing import path

if TYPE_CHECKING:
    from bridgehead.insight.recording.files import Writer
    from bridgehead.insight.recording.recorder import Recorded


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", parser=path, show_default=False, help="File to write.")],
    seconds: Annotated[
        float | None, typer.Option("--seconds", min=0, max=604800, help="Duration. Default: until Ctrl-C.")
    ] = None,
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Record one namespace. Default: all.")] = "",
    redact: Annotated[bool, typer.Option("--redact", help="Replace names and addresses, consistently.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")] = False,
    kubeconfig: Kubeconfig = None,
    name: Name = None,
    state_dir: StateDir = None,
) -> None:
    from bridgehead.client.errors import ClientError
    from bridgehead.insight.recording.files import writing

    if namespace and check_dns1123_label(namespace):
        fail("record", f"{namespace!r} is not the name of a namespace", 2)
    cluster = choose_cluster("record", kubeconfig, name, state_dir)
    with reporting_failures("record", ClientError, OSError):
        try:
            with writing(file, replace=force) as writer:
                recorded = asyncio.run(_record(cluster, writer, seconds, namespace, redact))
                writer.commit(replace=force)
        except FileExistsError:
            fail("record", f"{file} exists; --force replaces it")
        except KeyboardInterrupt:  # before the recording has begun
            raise typer.Exit(130) from None
    sys.stdout.write(_describe(file, writer.size_bytes, recorded))


async def _record(
    cluster: Cluster, writer: Writer, seconds: float | None, namespace: str, is_redacted: bool
) -> Recorded:
    from bridgehead.insight.recording.format import VERSION, Header
    from bridgehead.insight.recording.recorder import Recorder
    from bridgehead.insight.recording.redaction import Redaction

    redaction = Redaction(secrets.token_bytes(32), f"r{secrets.token_hex(3)}") if is_redacted else None
    stop = asyncio.Event()
    shown = redaction.text(namespace) if redaction else namespace
    program = f"bridgehead {__version__}"
    writer.add(Header(version=VERSION, began=time.time(), namespace=shown, is_redacted=is_redacted, program=program))

    def begin(recorded: Recorded) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        if seconds is not None:
            loop.call_later(seconds, stop.set)
        until = "until Ctrl-C" if seconds is None else f"for {seconds:g} s"
        sys.stderr.write(f"recording {recorded.objects.total()} objects and their changes {until}\n")
        sys.stderr.flush()

    async with cluster.connect("bridgehead-record") as (client, namespaces):
        # The rules of a kernel have the names and addresses of all namespaces.
        nodes = None if namespace or is_redacted else namespaces
        recorder = Recorder(client, writer.add, namespace=namespace, redaction=redaction, namespaces=nodes)
        recorded = await recorder.run(stop, begin)
    writer.add(recorder.end(), is_last=True)
    return recorded


def _describe(file: Path, size_bytes: int, recorded: Recorded) -> str:
    """Return the summary, with a line for each reason why something could not be recorded."""
    from bridgehead.insight.findings import grouped, printable

    counts = recorded.objects
    some = ", ".join(f"{counts[plural]} {plural}" for plural in ("services", "endpointslices", "pods", "nodes"))
    lines = [
        f"Wrote {file}: {counts.total()} objects ({some}), {recorded.changes} changes in {recorded.seconds:.1f} s,"
        f" {size_bytes / 1024:.0f} KiB."
    ]
    if recorded.kernel_states:
        lines.append(f"States of nodes' kernels: {recorded.kernel_states}.")
    lines += [f"Could not look at {printable(str(unseen))}" for unseen in grouped(recorded.unseen)]
    if recorded.skipped:
        lines.append(f"left out: {recorded.skipped} changes of invalid or too large objects")
    if recorded.is_cut:
        lines.append("The recording ended early: the file has its largest size.")
    return "".join(f"{line}\n" for line in lines)
