"""Command mode: what is typed after a colon.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from typing import NamedTuple

from bridgehead.suggestions import did_you_mean

from .tables import BY_ALIAS, NAMESPACES, View

_ALL = ("all", "*")


class Command(NamedTuple):
    """A parsed command. `namespace`: the one to choose, "" for all; None: unchanged. `error`: a line for the user."""

    view: View | None = None
    namespace: str | None = None
    is_quit: bool = False
    is_help: bool = False
    error: str = ""


def parse_command(text: str) -> Command:
    """Parse `svc`, `pods kube-system`, `ns default`, `q`, `help`."""
    name, *arguments = text.split() or [""]
    name = name.lower()
    if not name:
        return Command()
    if name in ("q", "quit", "q!", "exit"):
        return Command(is_quit=True)
    if name in ("?", "h", "help"):
        return Command(is_help=True)
    view = BY_ALIAS.get(name)
    if view is None:
        return Command(error=f"unknown command {name[:40]!r}{did_you_mean(name, tuple(BY_ALIAS))}")
    if not arguments:
        return Command(view=view)
    namespace = "" if arguments[0] in _ALL else arguments[0]
    if view is NAMESPACES:
        return Command(namespace=namespace)
    return Command(view=view, namespace=namespace)
