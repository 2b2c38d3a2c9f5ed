"""How subcommands read their command lines (`cli/__init__.py` makes them).

Options that are on or off may have a value, as Go's flag packages read it and manifests are full of it:
`--masquerade-all=false`. A command line may be read before the process is forked that runs it. And help names what an
option takes as people do: TEXT, PATH, N.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperCommand

# What Go's strconv.ParseBool reads.
_VALUES = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}

# What help calls an option's value, by the name of its type. (A choice names itself.)
_METAVARS = {"str": "TEXT", "path": "PATH", "int": "N", "float": "NUMBER"}


class Command(TyperCommand):
    """A subcommand, most of which typer makes of a function's signature."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._read_ahead: dict[tuple[str, ...], Any] = {}

    def read_ahead(self, info_name: str, args: Sequence[str]) -> None:
        """Read this command line now; whoever runs it later in a fork of this process need not. Raises as `main`."""
        self._read_ahead[tuple(args)] = super().make_context(info_name, list(args))

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        read = self._read_ahead.pop(tuple(args), None)
        return super().make_context(info_name, args, parent, **extra) if read is None else read

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        flags = {
            option: param
            for param in self.params
            if getattr(param, "is_bool_flag", False)
            for option in param.opts
            if option.startswith("--")
        }
        given: dict[str, bool] = {}
        rest = []
        for index, argument in enumerate(args):
            if argument == "--":
                rest += args[index:]
                break
            option, equals, text = argument.partition("=")
            if ctx.token_normalize_func is not None:
                option = ctx.token_normalize_func(option)
            if not equals or option not in flags:
                rest.append(argument)
            elif text in _VALUES:
                given[flags[option].name or ""] = _VALUES[text]
            elif not ctx.resilient_parsing:
                raise typer.BadParameter(f"{text!r} is neither true nor false.", ctx, param_hint=option)
        remaining = super().parse_args(ctx, rest)
        ctx.params.update(given)
        return remaining

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """`-- CMD...`, as it is typed: without typer's braces around what must be there."""
        return [re.sub(r"^\{(.*)\}(\.\.\.)?$", r"\1", piece) for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        for param in self.params:
            name = getattr(getattr(param, "type", None), "name", "")  # versions of typer differ in what they know
            name = re.sub(r"^list\[(.*)\]$", r"\1", name).partition(" ")[0].lower()
            if param.metavar is None and name in _METAVARS:
                param.metavar = _METAVARS[name]
        super().format_options(ctx, formatter)
