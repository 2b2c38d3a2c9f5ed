"""Run the containers of one node for its kubelet.

It serves one Unix socket and is the parent of all containers; the kubelet may be restarted without hurting them. Run
it in the node's network namespace, as root or in a user namespace with all capabilities. Images are looked for in the
image directory (NAME/rootfs/, NAME/image.json), then among the stand-ins.
"""

from __future__ import annotations

import socket as sockets
from functools import partial
from typing import Annotated

import typer

from bridgehead.cli import logs_setup
from bridgehead.cli.failures import reporting_failures
from bridgehead.kubelet.runtimes.container_process import work
from bridgehead.kubelet.runtimes.forking import prepare_to_fork
from bridgehead.kubelet.runtimes.server import ServerFailure, serve
from bridgehead.kubelet.runtimes.zygote import fork_zygote


def command(
    socket: Annotated[str, typer.Option(help="Serve the kubelet on this Unix socket.")],
    root: Annotated[str, typer.Option(help="Directory for what the runtime keeps while it runs.")],
    image_dir: Annotated[
        str, typer.Option(help="Local image store: NAME/rootfs/ and NAME/image.json.")
    ] = "/var/lib/bridgehead/images",
    zygote_fd: Annotated[
        int | None, typer.Option(hidden=True, help="Socket to a zygote that the caller has forked for it.")
    ] = None,
    lack_of_cgroup: Annotated[
        str, typer.Option(hidden=True, help="Why the caller could prepare no cgroup, for the node's Event.")
    ] = "",
    verbosity: Annotated[int, typer.Option("-v", "--v", help="0 for operators, 1 for developers.")] = 0,
) -> None:
    from bridgehead.cli import main

    if zygote_fd is None:
        # First of all, with what is loaded by then.
        prepare_to_fork()
        to_zygote = fork_zygote(partial(work, main))
    else:
        to_zygote = sockets.socket(fileno=zygote_fd)
    logs_setup.configure(verbosity)
    with reporting_failures("runtime", ServerFailure):
        serve(
            socket_path=socket,
            root_dir=root,
            image_dir=image_dir,
            to_zygote=to_zygote,
            lack_of_cgroup=lack_of_cgroup,
        )
