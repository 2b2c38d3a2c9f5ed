"""docs/reference/commands.md: every command with its options, as `--help` has them."""

from __future__ import annotations

import inspect
import re
import textwrap
from typing import Any

from bridgehead import cli
from bridgehead.cli.groups import ARGUMENTS, OPTIONS

from .tables import code, escaped, made_by, table

_INTRODUCTION = """\
`bridgehead COMMAND --help` shows the same. A flag also takes a value, as in Go's programs: `--masquerade-all=false`.
Options that kube-proxy, CoreDNS or MetalLB have and that have no effect here are in
[Configurations](../configurations.md), not in this list.

Every command exits with 0 when it did what it was asked for, with 1 when it did not (standard error has one line with
the reason), and with 2 for a wrong command line. Commands whose exit code means more have that in their text.

"""


def render_page() -> str:
    """Return the page."""
    parts = ["# Commands\n\n", made_by("commands"), _INTRODUCTION]
    section = ""
    for name, (heading, _) in cli.COMMANDS.items():
        if heading != section:
            parts.append(f"## {heading}\n\n")
            section = heading
        parts.append(_command(name))
    return "".join(parts).rstrip("\n") + "\n"


def _command(name: str) -> str:
    command = cli.load_command(name)
    context = command.make_context(f"bridgehead {name}", [], resilient_parsing=True)
    command.get_help(context)  # gives the options' values their names
    usage = " ".join(command.collect_usage_pieces(context))
    parts = [f"### bridgehead {name}\n\n", f"    bridgehead {name} {usage}".rstrip() + "\n\n"]
    parts += [f"{_paragraph(text)}\n\n" for text in inspect.cleandoc(command.help or "").split("\n\n")]
    groups: dict[str, list[tuple[str, str]]] = {}
    for param in command.params:
        record = _record(param, context)
        if record is not None:
            default = ARGUMENTS if param.param_type_name == "argument" else OPTIONS
            groups.setdefault(getattr(param, "rich_help_panel", None) or default, []).append(record)
    for title, records in sorted(groups.items(), key=lambda group: group[0] == OPTIONS):
        rows = [(code(option), escaped(text)) for option, text in records]
        parts += [table((title, ""), rows), "\n"]
    return "".join(parts)


def _paragraph(text: str) -> str:
    if text.startswith(" "):
        return textwrap.indent(textwrap.dedent(text), "    ")
    return escaped(" ".join(text.split()))


def _record(param: Any, context: Any) -> tuple[str, str] | None:
    record = param.get_help_record(context)
    if record is None:
        return None
    option, text = record
    return option, re.sub(r"\s+", " ", text).strip()
