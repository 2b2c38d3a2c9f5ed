"""The `bridgehead` command: one module for each subcommand, imported only when it is asked for.

Each module has a function `command` whose signature typer turns into options.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

# Subcommand -> (section of the help, one line for the help).
COMMANDS: dict[str, tuple[str, str]] = {
    "up": ("Cluster on this machine", "Start a cluster in namespaces of its own."),
    "down": ("Cluster on this machine", "Stop it; its state is kept for the next `up`."),
    "status": ("Cluster on this machine", "Show which clusters run, and their nodes and parts."),
    "kubeconfig": ("Cluster on this machine", "Print the kubeconfig of a running cluster."),
    "exec": ("Cluster on this machine", "Run a command in the cluster's network, or on one of its nodes."),
    "shell": ("Cluster on this machine", "Open a shell there."),
    "logs": ("Cluster on this machine", "Show the logs of the cluster's own parts."),
    "apiserver": ("Parts, each runs alone", "Serve the Kubernetes API."),
    "controllers": ("Parts, each runs alone", "Run the controllers."),
    "kubelet": ("Parts, each runs alone", "Run the pods of one node."),
    "runtime": ("Parts, each runs alone", "Run the containers of one node for its kubelet."),
    "proxy": ("Parts, each runs alone", "Program this node's kernel with the Services of a cluster."),
    "dns": ("Parts, each runs alone", "Answer the names of a cluster's Services and pods."),
}


def main(argv: list[str] | None = None) -> None:
    """Run one subcommand; `argv` is without the program's name."""
    arguments = sys.argv[1:] if argv is None else argv
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        sys.stdout.write(_help())
        raise SystemExit(0)
    if arguments[0] == "--version":
        from bridgehead import __version__

        sys.stdout.write(f"bridgehead {__version__}\n")
        raise SystemExit(0)
    name = arguments[0]
    if name not in COMMANDS:
        sys.stderr.write(f"bridgehead: no command {name!r}; `bridgehead --help` lists them\n")
        raise SystemExit(2)
    _click_command(name).main(args=arguments[1:], prog_name=f"bridgehead {name}")


def preload(names: Iterable[str]) -> None:
    """Import subcommands and all that parsing their options needs, so that forks of this process share it."""
    for name in names:
        _click_command(name).make_context(name, [], resilient_parsing=True)


@lru_cache
def _click_command(name: str) -> Any:
    import typer

    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    module = importlib.import_module(f"bridgehead.cli.{name}")
    app.command(name, help=module.__doc__, context_settings=getattr(module, "CONTEXT", None))(module.command)
    return typer.main.get_command(app)


def _help() -> str:
    lines = ["Usage: bridgehead COMMAND [OPTIONS]"]
    section = ""
    for name, (its_section, text) in COMMANDS.items():
        if its_section != section:
            lines += ["", f"{its_section}:"]
            section = its_section
        lines.append(f"  {name:<12} {text}")
    lines += ["", "`bridgehead COMMAND --help` explains one of them."]
    return "\n".join(lines) + "\n"
