"""Open a shell in the cluster's network, or on a node. Its KUBECONFIG is the cluster's."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from bridgehead.lab import host, registry
from bridgehead.lab.enter import find_node, run_inside
from bridgehead.lab.plan import API_PORT, LAB_ADDRESS

from .lab_options import DEFAULT_NAME, Name, StateDir, reporting_errors


def command(
    node: Annotated[str | None, typer.Argument(help="The node; without it, outside the nodes.")] = None,
    name: Name = DEFAULT_NAME,
    state_dir: StateDir = None,
) -> None:
    with reporting_errors():
        files = registry.find_files(name, state_dir)
        lab = registry.read_running(files)
        host.extend_path()
        where = find_node(lab, node) if node else None
        inside = files.root / "kubeconfig.inside"
        text = files.kubeconfig.read_text("utf-8")
        inside.touch(mode=0o600)
        # The host's loopback is not the lab's.
        inside.write_text(text.replace(f"127.0.0.1:{lab.config.port}", f"{LAB_ADDRESS}:{API_PORT}"), "utf-8")
        env = dict(os.environ, KUBECONFIG=str(inside))
        shell = os.environ.get("SHELL", "/bin/sh")
        raise typer.Exit(run_inside(lab, [shell], node=where, env=env))
