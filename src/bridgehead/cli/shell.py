"""Open a shell in the cluster's network, or on a node, with KUBECONFIG set to the cluster's.

The shell sees this machine's files; a node's own files, which hostPath volumes show, are in /host of `kubectl debug
node/NODE -it --image=busybox -- sh`.
"""

from __future__ import annotations

import os
from typing import Annotated

import typer

from .exec import run
from .lab_options import Name, StateDir


def command(
    node: Annotated[
        str | None,
        typer.Argument(metavar="[NODE]", help="Name of the node. Default: outside the nodes, on their network."),
    ] = None,
    name: Name = None,
    state_dir: StateDir = None,
) -> None:
    run([os.environ.get("SHELL", "/bin/sh")], name, node, state_dir)
