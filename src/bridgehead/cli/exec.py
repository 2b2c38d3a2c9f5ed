"""Run a command in the cluster's network: on a node, or outside the nodes, as a client on their local network.

The exit code is the command's, and KUBECONFIG is set to the cluster's. The command sees this machine's files; a node's
own files, which hostPath volumes show, are in /host of `kubectl debug node/NODE -it --image=busybox -- sh`.

Example:

    bridgehead exec --node node1 -- nft list ruleset
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from bridgehead.lab import preflight, state_directories
from bridgehead.lab.enter import find_node, run_inside

from .lab_options import Name, StateDir, find_lab, reporting_errors

CONTEXT = {"allow_interspersed_args": False}


def command(
    argv: Annotated[
        list[str], typer.Argument(metavar="-- CMD...", show_default=False, help="The command and its arguments.")
    ],
    name: Name = None,
    node: Annotated[str | None, typer.Option(help="Node to run the command on.")] = None,
    state_dir: StateDir = None,
) -> None:
    run(argv, name, node, state_dir)


def run(argv: Sequence[str], name: str | None, node: str | None, state_dir: Path | None) -> NoReturn:
    """Run `argv` in the lab, with the lab's KUBECONFIG: no other cluster is reachable from there."""
    with reporting_errors():
        files = find_lab(name, state_dir)
        lab = state_directories.read_running(files)
        preflight.extend_path()
        where = find_node(lab, node) if node else None
        # HTTP proxies of the machine are unreachable from the lab.
        kept = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
        env = kept | {"KUBECONFIG": str(files.inside_kubeconfig)}
        code = run_inside(lab, argv, node=where, env=env)
    raise typer.Exit(code)
