"""The class of all subcommands: parsing of their command lines and layout of their `--help`.

Boolean options accept a value, as Go's flag packages do and many manifests use: `--masquerade-all=false`. A command
line can be parsed before the fork of the process that runs it. `--help` shows options in the groups that they declare
(`rich_help_panel`), and names an option's value TEXT, PATH or N. Lines break at spaces, never inside the name or
default of an option. Indented paragraphs are commands, which keep their lines.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

import typer
from typer.core import TyperCommand

from bridgehead.suggestions import did_you_mean

from .groups import ARGUMENTS, OPTIONS
from .parsing import parse_flag

# Stand-ins for characters at which click would break a line, replaced again in the finished text.
_NO_BREAK = {"-": "\N{NON-BREAKING HYPHEN}", " ": "\N{NO-BREAK SPACE}"}
_BREAKABLE = str.maketrans({stand_in: character for character, stand_in in _NO_BREAK.items()})

# Name of an option's value in `--help`, by the name of the option's type. A choice lists its values instead.
_METAVARS = {"str": "TEXT", "path": "PATH", "int": "N", "float": "NUMBER"}

# Width of the column of options in `--help`; a longer option has a line of its own. Leaves 48 columns of 80 for texts.
_OPTIONS_WIDTH = 26

# click's base class of errors in command lines, wherever this version of typer has it.
_UsageError: Any = typer.BadParameter.__base__


class Command(TyperCommand):
    """A subcommand that typer builds from a function's signature."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._read_ahead: dict[tuple[str, ...], Any] = {}

    def read_ahead(self, info_name: str, args: Sequence[str]) -> None:
        """Parse this command line now, so that a fork of this process that runs it need not. Raises as `main`."""
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
            elif (value := True if (option, text) == ("--version", "raw") else parse_flag(text)) is not None:
                given[flags[option].name or ""] = value
            elif not ctx.resilient_parsing:
                raise typer.BadParameter(f"{text!r} is neither true nor false.", ctx, param_hint=option)
        try:
            remaining = super().parse_args(ctx, rest)
        except _UsageError as error:
            _improve(error, self.params)
            raise
        ctx.params.update(given)
        return remaining

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Show required arguments as the user types them, `-- CMD...`, without typer's braces."""
        return [re.sub(r"^\{(.*)\}(\.\.\.)?$", r"\1", piece) for piece in super().collect_usage_pieces(ctx)]

    def get_help(self, ctx: Any) -> str:
        return super().get_help(ctx).translate(_BREAKABLE)

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        for paragraph in inspect.cleandoc(self.help or "").split("\n\n"):
            formatter.write_paragraph()
            with formatter.indentation():
                # click does not wrap a paragraph after a line with a backspace.
                formatter.write_text(f"\b\n{paragraph}" if paragraph.startswith(" ") else _keep_together(paragraph))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            _set_metavar(param)
            record = param.get_help_record(ctx)
            if record is not None:
                default = ARGUMENTS if param.param_type_name == "argument" else OPTIONS
                option, text = record
                panel = getattr(param, "rich_help_panel", None) or default
                sections.setdefault(panel, []).append((option, _keep_together(text)))
        # Options without a group come last, as --help itself does.
        for title, records in sorted(sections.items(), key=lambda section: section[0] == OPTIONS):
            with formatter.section(title):
                formatter.write_dl(records, col_max=_OPTIONS_WIDTH)


def _improve(error: Any, params: Sequence[Any]) -> None:
    """Give the message of a wrong option or value a suggestion, and the plain name of a number."""
    if wrong := re.match(r"'([^']*)' is not one of ", error.message):
        choices = getattr(getattr(error.param, "type", None), "choices", ())
        names = [str(getattr(choice, "value", choice)) for choice in choices]
        error.message = error.message.rstrip(".") + (did_you_mean(wrong[1], names) or ".")
    elif hasattr(error, "possibilities"):
        shown = [param for param in params if not getattr(param, "hidden", False)]
        options = [option for param in shown for option in (*param.opts, *param.secondary_opts)]
        error.possibilities = None  # click's own, which name hidden options, too
        error.message += did_you_mean(error.option_name, [option for option in options if option.startswith("--")])
    else:
        error.message = re.sub(r"a valid int(eger)?( range)?\.$", "a whole number.", error.message)
        error.message = re.sub(r"a valid float( range)?\.$", "a number.", error.message)


def _keep_together(text: str) -> str:
    """Replace hyphens, and spaces inside an item of [default: 1; env var: X], by characters that break no line."""
    text = text.replace("-", _NO_BREAK["-"])
    return re.sub(r"\[[^][]*\]", lambda match: re.sub("(?<!;) ", _NO_BREAK[" "], match[0]), text)


def _set_metavar(param: Any) -> None:
    name = getattr(getattr(param, "type", None), "name", "")  # not every version of typer has both
    name = re.sub(r"^list\[(.*)\]$", r"\1", name).partition(" ")[0].lower()
    if param.metavar is None and name in _METAVARS:
        param.metavar = _METAVARS[name]


def as_flags(params: Mapping[str, object]) -> dict[str, str]:
    """Return the parameters of a command as its options by name, for the page /flagz."""
    return {_flag_name(name): _flag_text(value) for name, value in params.items()}


def _flag_name(parameter: str) -> str:
    return "v" if parameter == "verbosity" else parameter.replace("_", "-")


def _flag_text(value: object) -> str:
    """Return an option's value as Go's flag library prints it."""
    if isinstance(value, list | tuple):
        return f"[{','.join(map(str, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)
