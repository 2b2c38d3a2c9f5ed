"""Run the containers of one node for its kubelet.

The runtime serves one Unix socket and is the parent of all containers, which survive a restart of the kubelet. Run the
runtime in the node's network namespace, as root or in a user namespace with all capabilities. An image is taken from
the image directory (NAME/rootfs/, NAME/image.json), the content store of pulled images, or the stand-ins.
"""

from __future__ import annotations

import socket as sockets
from dataclasses import dataclass
from functools import partial

from bridgehead.kubelet.runtimes.image_resolver import ImageDirectories
from bridgehead.kubelet.runtimes.service.serve import ServerFailure, serve
from bridgehead.kubelet.runtimes.spawn.container_init import run_job
from bridgehead.kubelet.runtimes.spawn.forking import prepare_to_fork
from bridgehead.kubelet.runtimes.spawn.zygote import fork_zygote

from . import logs_setup
from .exit_codes import reporting_failures
from .groups import OPTIONS
from .options import REQUIRED, hidden, option, verbosity_row


@dataclass(frozen=True, kw_only=True)
class Options:
    socket: str = option(REQUIRED, OPTIONS, "Unix socket for the kubelet.")
    root: str = option(REQUIRED, OPTIONS, "Directory of the runtime's temporary files.")
    image_dir: str = option(
        "/var/lib/bridgehead/images", OPTIONS, "Local image store: NAME/rootfs/ and NAME/image.json."
    )
    content_dir: str = option("", OPTIONS, "Content store of pulled images; '' for none.")
    zygote_fd: int | None = hidden(None, help="Socket to a zygote that the caller has forked for it.")
    lack_of_cgroup: str = hidden("", help="Why the caller could prepare no cgroup, for the node's Event.")
    verbosity: int = verbosity_row()


def command(options: Options) -> None:
    from . import main

    if options.zygote_fd is None:
        # Before anything else, so that the zygote inherits only what is loaded now.
        prepare_to_fork()
        zygote_socket = fork_zygote(partial(run_job, main))
    else:
        zygote_socket = sockets.socket(fileno=options.zygote_fd)
    logs_setup.configure(options.verbosity)
    with reporting_failures("runtime", ServerFailure):
        serve(
            socket_path=options.socket,
            root_dir=options.root,
            images=ImageDirectories(options.image_dir, options.content_dir),
            zygote_socket=zygote_socket,
            lack_of_cgroup=options.lack_of_cgroup,
        )
