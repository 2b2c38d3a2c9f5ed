"""Run the containers of one node for its kubelet.

The runtime serves one Unix socket and is the parent of all containers, which survive a restart of the kubelet. Run the
runtime in the node's network namespace, as root or in a user namespace with all capabilities. An image is taken from
the image directory (NAME/rootfs/, NAME/image.json), the content store of pulled images, or the stand-ins.
"""

from __future__ import annotations

import socket as sockets
from functools import partial
from typing import Annotated

import typer

from bridgehead.cli import logs_setup
from bridgehead.cli.failures import reporting_failures
from bridgehead.kubelet.runtimes.images.resolver import ImageDirectories
from bridgehead.kubelet.runtimes.service.serve import ServerFailure, serve
from bridgehead.kubelet.runtimes.spawn.container_init import run_job
from bridgehead.kubelet.runtimes.spawn.forking import prepare_to_fork
from bridgehead.kubelet.runtimes.spawn.zygote import fork_zygote


def command(
    socket: Annotated[str, typer.Option(help="Unix socket for the kubelet.")],
    root: Annotated[str, typer.Option(help="Directory of the runtime's temporary files.")],
    image_dir: Annotated[
        str, typer.Option(help="Local image store: NAME/rootfs/ and NAME/image.json.")
    ] = "/var/lib/bridgehead/images",
    content_dir: Annotated[str, typer.Option(help="Content store of pulled images; '' for none.")] = "",
    zygote_fd: Annotated[
        int | None, typer.Option(hidden=True, help="Socket to a zygote that the caller has forked for it.")
    ] = None,
    lack_of_cgroup: Annotated[
        str, typer.Option(hidden=True, help="Why the caller could prepare no cgroup, for the node's Event.")
    ] = "",
    verbosity: Annotated[int, typer.Option("-v", "--v", help="Verbosity: 0 for operators, 1 for developers.")] = 0,
) -> None:
    from bridgehead.cli import main

    if zygote_fd is None:
        # Before anything else, so that the zygote inherits only what is loaded now.
        prepare_to_fork()
        zygote_socket = fork_zygote(partial(run_job, main))
    else:
        zygote_socket = sockets.socket(fileno=zygote_fd)
    logs_setup.configure(verbosity)
    with reporting_failures("runtime", ServerFailure):
        serve(
            socket_path=socket,
            root_dir=root,
            images=ImageDirectories(image_dir, content_dir),
            zygote_socket=zygote_socket,
            lack_of_cgroup=lack_of_cgroup,
        )
