"""The `bridgehead` command: one module for each subcommand, imported only when it is asked for.

Each module has a function `command` whose signature typer turns into options.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from .output import reporting_output_errors

# Subcommand -> (section of the help, one line for the help).
COMMANDS: dict[str, tuple[str, str]] = {
    "up": ("Cluster on this machine", "Start a cluster in namespaces of its own."),
    "down": ("Cluster on this machine", "Stop it; its state is kept for the next `up`."),
    "status": ("Cluster on this machine", "Show which clusters run, and their nodes and parts."),
    "kubeconfig": ("Cluster on this machine", "Print the kubeconfig of a running cluster."),
    "exec": ("Cluster on this machine", "Run a command in the cluster's network, or on one of its nodes."),
    "shell": ("Cluster on this machine", "Open a shell there."),
    "logs": ("Cluster on this machine", "Show the logs of the cluster's own parts."),
    "wait": ("Any cluster", "Wait until a Service is programmed on every node."),
    "apiserver": ("Parts, each runs alone", "Serve the Kubernetes API."),
    "controllers": ("Parts, each runs alone", "Run the controllers."),
    "kubelet": ("Parts, each runs alone", "Run the pods of one node."),
    "runtime": ("Parts, each runs alone", "Run the containers of one node for its kubelet."),
    "proxy": ("Parts, each runs alone", "Program this node's kernel with the Services of a cluster."),
    "dns": ("Parts, each runs alone", "Answer the names of a cluster's Services and pods."),
}

# What most parts load, some of it only once they work: a kubeconfig or a configuration is read, a host name looked up.
_LOADED_BY_MOST = ("uvloop", "prometheus_client", "yaml", "encodings.idna")
# What one of them loads late: a mode is opened, and what other modes left is removed.
_LOADED_LATE = {
    "proxy": (
        "bridgehead.proxy.nftables",
        "bridgehead.proxy.iptables",
        "bridgehead.proxy.ipvs",
        "bridgehead.proxy.userspace",
    ),
}


def main(argv: list[str] | None = None) -> None:
    """Run one subcommand; `argv` is without the program's name."""
    with reporting_output_errors():
        _run(sys.argv[1:] if argv is None else argv)


def _run(arguments: list[str]) -> None:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        if len(arguments) < 2:
            sys.stdout.write(_help())
            raise SystemExit(0)
        arguments = [arguments[1], "--help"]
    if arguments[0] == "--version":
        from bridgehead import __version__

        sys.stdout.write(f"bridgehead {__version__}\n")
        raise SystemExit(0)
    name = arguments[0]
    if name not in COMMANDS:
        sys.stderr.write(f"bridgehead: no command {name!r}; `bridgehead --help` lists them\n")
        raise SystemExit(2)
    try:
        command = _click_command(name)
    except KeyboardInterrupt:  # while it loads; later it is the command's to say
        raise SystemExit(130) from None
    command.main(args=arguments[1:], prog_name=_program(name))


def preload(lines: Iterable[Sequence[str]]) -> None:
    """Import subcommands and all that reading their options needs, so that forks of this process share it.

    `lines` are command lines. Those with options are read, which a fork finds done when it runs the same in `main`.
    """
    from bridgehead.client.codec import codec_of
    from bridgehead.objects import kinds

    for module in _LOADED_BY_MOST:
        importlib.import_module(module)
    for kind in kinds.ALL_KINDS:
        codec_of(kind)
    isinstance("", Mapping)  # asks all mappings that there are, and keeps the answer: logging wants it for its words
    for name, *options in lines:
        for module in _LOADED_LATE.get(name, ()):
            importlib.import_module(module)
        command = _click_command(name)
        if options:
            command.read_ahead(_program(name), options)
        else:
            command.make_context(name, [], resilient_parsing=True)


def _program(name: str) -> str:
    return f"bridgehead {name}"


@lru_cache
def _click_command(name: str) -> Any:
    import typer

    from .flags import Command

    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    module = importlib.import_module(f"bridgehead.cli.{name}")
    settings = {"help_option_names": ["-h", "--help"], **getattr(module, "CONTEXT", {})}
    app.command(name, cls=Command, help=module.__doc__, context_settings=settings)(module.command)
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
