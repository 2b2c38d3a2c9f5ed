"""Run the containers of one node for its kubelet.

It serves one Unix socket and is the parent of all containers; the kubelet may be restarted without hurting them. Run
it in the node's network namespace, as root or in a user namespace with all capabilities. Images are looked for in the
image directory (NAME/rootfs/, NAME/image.json), then among the stand-ins.
"""

from __future__ import annotations

from typing import Annotated

import typer

from bridgehead.cli import logs_setup
from bridgehead.cli.failures import reporting_failures
from bridgehead.kubelet.runtimes.server import ServerFailure, serve


def command(
    socket: Annotated[str, typer.Option(help="Serve the kubelet on this Unix socket.")],
    root: Annotated[str, typer.Option(help="Directory for what the runtime keeps while it runs.")],
    image_dir: Annotated[
        str, typer.Option(help="Local image store: NAME/rootfs/ and NAME/image.json.")
    ] = "/var/lib/bridgehead/images",
    verbosity: Annotated[int, typer.Option("-v", "--v", help="0 for operators, 1 for developers.")] = 0,
) -> None:
    from bridgehead.cli import main

    logs_setup.configure(verbosity)
    with reporting_failures("runtime", ServerFailure):
        serve(socket_path=socket, root_dir=root, image_dir=image_dir, run_part=main)
