"""The `bridgehead` command: one module for each subcommand, imported only when that subcommand runs.

Each module has a function `command`. Its options are its parameters or, if there are many, the rows of the module's
class `Options` (`options.py`).
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from typing import Any

from bridgehead.heap import no_collection
from bridgehead.suggestions import did_you_mean

from .output import reporting_output_errors

# Subcommand -> (section of the help, one line for the help).
COMMANDS: dict[str, tuple[str, str]] = {
    "up": ("Cluster on this machine", "Start a cluster in namespaces of its own."),
    "down": ("Cluster on this machine", "Stop a cluster; its state is kept for the next `up`."),
    "status": ("Cluster on this machine", "Show the clusters, and the nodes and parts of the running ones."),
    "kubeconfig": ("Cluster on this machine", "Print the kubeconfig of a cluster."),
    "env": ("Cluster on this machine", "Print the environment for a cluster, for `eval`."),
    "exec": ("Cluster on this machine", "Run a command in the cluster's network, or on one of its nodes."),
    "shell": ("Cluster on this machine", "Open a shell in the cluster's network, or on one of its nodes."),
    "open": ("Cluster on this machine", "Open Services on this machine, by local ports that lead through their rules."),
    "tunnel": ("Cluster on this machine", "Serve a SOCKS5 and HTTP proxy here that reaches a cluster's names."),
    "logs": ("Cluster on this machine", "Show the logs of the cluster's own parts."),
    "image": ("Cluster on this machine", "List, pull, load, save, remove and build images."),
    "load": ("Cluster on this machine", "Load the image that was just built, and restart what uses it."),
    "watch": ("Cluster on this machine", "Run a command whenever files change, and load the image that it builds."),
    "backup": ("Cluster on this machine", "Write a backup of the cluster's objects, also while it runs."),
    "restore": ("Cluster on this machine", "Replace a stopped cluster's objects by those of a backup."),
    "doctor": ("Understanding a cluster", "Show why Services do not work, and the fix of each cause."),
    "trace": ("Understanding a cluster", "Make a connection, and show its whole way through names, rules and nodes."),
    "rules": ("Understanding a cluster", "Show a node's rules, each with the Service that it is there for."),
    "flows": ("Understanding a cluster", "Show the live connections of Services, by backend."),
    "diff-modes": ("Understanding a cluster", "Show what differs between two proxy modes, for the cluster's Services."),
    "top": ("Understanding a cluster", "Show Services, pods, nodes and their rates in the terminal, as they change."),
    "dashboard": ("Understanding a cluster", "Show a cluster in the browser, live."),
    "wait": ("Understanding a cluster", "Wait until a Service is programmed on every node."),
    "record": ("Understanding a cluster", "Record the Services of a cluster, and what changes, to a file."),
    "replay": ("Understanding a cluster", "Rebuild a recording's Services in a cluster of its own."),
    "tour": ("Understanding a cluster", "Go through the lessons of Services, step by step."),
    "apiserver": ("Parts of a cluster; each also runs alone", "Serve the Kubernetes API."),
    "controllers": ("Parts of a cluster; each also runs alone", "Run the controllers."),
    "kubelet": ("Parts of a cluster; each also runs alone", "Run the pods of one node."),
    "runtime": ("Parts of a cluster; each also runs alone", "Run the containers of one node for its kubelet."),
    "proxy": ("Parts of a cluster; each also runs alone", "Program this node's kernel with the Services of a cluster."),
    "speaker": ("Parts of a cluster; each also runs alone", "Announce load-balancer addresses from this node."),
    "dns": ("Parts of a cluster; each also runs alone", "Answer the names of a cluster's Services and pods."),
    "balancer": ("Parts of a cluster; each also runs alone", "Give load-balancer addresses to Services."),
    "forwarder": ("Parts of a cluster; each also runs alone", "Lead ports of this machine to Services of a cluster."),
    "version": ("Bridgehead itself", "Print the version."),
    "completion": ("Bridgehead itself", "Print the completion script of a shell."),
}

# Modules that most parts load, some only while they run: to read a kubeconfig, or to resolve a host name.
_LOADED_BY_MOST = ("uvloop", "prometheus_client", "bridgehead.yaml_loader", "encodings.idna")
# Modules that one part loads late: the proxy, for example, when it opens its mode and removes the rules of the others.
_LOADED_LATE = {
    "proxy": (
        "bridgehead.proxy.nftables",
        "bridgehead.proxy.iptables",
        "bridgehead.proxy.ipvs",
        "bridgehead.proxy.userspace",
    ),
    # A speaker starts its failure detector before it imports these; a lab's parts share them anyway.
    "speaker": ("bridgehead.balancer.speaker.assembly",),
}
# Modules with kinds that one part uses, beside those that all may use.
_KINDS = {"speaker": ("bridgehead.objects.metallb", "bridgehead.objects.openelb")}


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
        arguments = ["version"]
    name = arguments[0]
    if name not in COMMANDS:
        suggestion = (
            did_you_mean(name, (*COMMANDS, "help", "--help", "--version")) or "; `bridgehead --help` lists the commands"
        )
        sys.stderr.write(f"bridgehead: unknown command {name!r}{suggestion}\n")
        raise SystemExit(2)
    with _before(name), _reporting_missing_modules(name):
        try:
            with no_collection():
                command = load_command(name)
        except KeyboardInterrupt:  # while its module loads; later the command handles it
            raise SystemExit(130) from None
        command.main(args=arguments[1:], prog_name=_program(name))


def _before(name: str) -> AbstractContextManager[None]:
    """Return what surrounds a subcommand, and begins before its modules are imported."""
    if name != "speaker":
        return nullcontext()
    from bridgehead.balancer.detection.process import starting_early

    return starting_early()


@contextmanager
def _reporting_missing_modules(name: str) -> Iterator[None]:
    """Name the module that an installation lacks; the container image has only what the parts in a cluster need."""
    try:
        yield
    except ModuleNotFoundError as error:
        sys.stderr.write(f"bridgehead {name}: not a part of this installation: the module {error.name} is missing\n")
        raise SystemExit(1) from None


def preload(lines: Iterable[Sequence[str]]) -> None:
    """Import subcommands and everything that parsing their options needs, so that forks of this process share it.

    `lines` are command lines. A line with options is parsed here; a fork that passes the same line to `main` reuses the
    result.
    """
    from bridgehead.client.codec import codec_of
    from bridgehead.objects import kinds

    for module in _LOADED_BY_MOST:
        importlib.import_module(module)
    for kind in kinds.ALL_KINDS:
        codec_of(kind)
    isinstance("", Mapping)  # fills the cache of this check, which logging makes for each message with arguments
    for name, *options in lines:
        for module in _LOADED_LATE.get(name, ()):
            importlib.import_module(module)
        for module in _KINDS.get(name, ()):
            for kind in vars(importlib.import_module(module)).values():
                if isinstance(kind, kinds.Kind):
                    codec_of(kind)
        command = load_command(name)
        if options:
            command.read_ahead(_program(name), options)
        else:
            command.make_context(name, [], resilient_parsing=True)


def _program(name: str) -> str:
    return f"bridgehead {name}"


@lru_cache
def load_command(name: str) -> Any:
    """Return the command object (typer's) of a subcommand."""
    import typer

    from .options import function_for_typer
    from .subcommand import Command

    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    module = importlib.import_module(f"bridgehead.cli.{name.replace('-', '_')}")
    settings = {"help_option_names": ["-h", "--help"], "max_content_width": 100, **getattr(module, "CONTEXT", {})}
    function = function_for_typer(module.Options, module.command) if hasattr(module, "Options") else module.command
    app.command(name, cls=Command, help=module.__doc__, context_settings=settings)(function)
    command: Any = typer.main.get_command(app)
    for each in (function, command.callback):
        vars(each).pop("__signature__", None)  # typer has read it; it is as large as everything made of it
    return command


def _help() -> str:
    lines = ["Usage: bridgehead COMMAND [OPTIONS]"]
    section = ""
    for name, (heading, text) in COMMANDS.items():
        if heading != section:
            lines += ["", f"{heading}:"]
            section = heading
        lines.append(f"  {name:<12} {text}")
    lines += ["", "`bridgehead COMMAND --help` explains a command."]
    return "\n".join(lines) + "\n"
