"""The options of a command, each written once: the fields of a dataclass, whose defaults are rows made by `option`.

    @dataclass(frozen=True, kw_only=True)
    class Options:
        max_pods: int = option(110, PODS, "Maximum number of pods.", min=0)

    def command(options: Options) -> None: ...

A row has the default, and the group and the text of `--help`; the field's name and type are the option's. Everything
else follows: the command line, help, completion, /flagz, and for `bridgehead proxy` the field of the configuration.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

import typer

from .groups import ARGUMENTS, OPTIONS
from .parsing import path

T = TypeVar("T")

_ROW = "row"
# The default of an option that has to be given.
REQUIRED: Any = dataclasses.MISSING


@dataclass(frozen=True)
class Refusal:
    """A value that an option may not have, None for any value, and what to do instead."""

    value: object
    advice: str

    def concerns(self, value: object) -> bool:
        return value == self.value if self.value is not None else value not in ("", None)


@dataclass(frozen=True, slots=True)
class Option:
    """The properties of an option beside its name, type and default.

    `names`: all names, of a flag also the negative one after a slash. Without: `--` and the field's name.
    `min`, `max`: the range of a number, both included. `parse`: reads the value; a path needs none.
    """

    group: str = OPTIONS  # of `--help`
    help: str | None = None
    names: tuple[str, ...] = ()
    is_hidden: bool = False
    metavar: str | None = None
    envvar: str | None = None
    min: float | None = None
    max: float | None = None
    parse: Callable[[str], object] | None = None
    is_argument: bool = False  # is known by its place, not by a name
    # For a command with a configuration: the field that the option overrides, `section.name`.
    field: str = ""
    is_list: bool = False  # the field is a list, the option its entries with commas between them
    is_positive: bool = False  # a duration of 0 is refused, although 0 in the file is the default
    refusal: Refusal | None = None
    without_effect: str = ""  # the reason, for a warning


def option(default: Any, group: str, help: str, *names: str, **more: Any) -> Any:
    """Return the row of an option that `--help` shows. `more`: further fields of `Option`."""
    return row(default, Option(group, help, names, **more))


def hidden(default: Any, **more: Any) -> Any:
    """Return the row of an option that `--help` omits. `more`: further fields of `Option`."""
    return row(default, Option(is_hidden=True, **more))


def argument(default: Any, help: str, **more: Any) -> Any:
    """Return the row of an argument, in place of an option. `more`: further fields of `Option`."""
    return row(default, Option(ARGUMENTS, help, is_argument=True, **more))


def verbosity_row(help: str = "Verbosity: 0 for operators, 1 for developers.", **more: Any) -> Any:
    """Return the row of `-v`. `more`: further fields of `Option`."""
    return row(0, Option(help=help, names=("-v", "--v"), **more))


def row(default: Any, properties: Option) -> Any:
    """Return the field of a dataclass for an option with these properties."""
    return dataclasses.field(default=default, metadata={_ROW: properties})


@lru_cache
def rows_of(options: type) -> Mapping[str, Option]:
    """Return the rows of a dataclass by the names of its fields, in their order."""
    return {field.name: field.metadata[_ROW] for field in dataclasses.fields(options)}


def spelled(name: str) -> str:
    """Return the option of a field as the user types it."""
    return f"--{name.replace('_', '-')}"


def refused(options: object) -> str:
    """Return the error for an option with a value that it may not have; "": there is none."""
    kind: type = type(options)
    for name, row in rows_of(kind).items():
        value = getattr(options, name)
        if row.refusal is not None and row.refusal.concerns(value):
            text = f"={str(value).lower()}" if isinstance(value, bool) else ""
            return f"{spelled(name)}{text}: {row.refusal.advice}"
    return ""


def unused(options: object) -> Iterator[str]:
    """Yield warnings about options without effect."""
    kind: type = type(options)
    for name, row in rows_of(kind).items():
        if row.without_effect and getattr(options, name) not in ("", None):
            yield f"{spelled(name)} is not used: {row.without_effect}"


def function_for_typer(options: type[T], run: Callable[[T], None]) -> Callable[..., None]:
    """Return a function whose parameters are the fields of a dataclass; it runs `run` with a value of the dataclass."""

    def function(**values: Any) -> None:
        run(options(**values))

    types = get_type_hints(options)
    parameters = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=for_typer(field.name, types[field.name], field.metadata[_ROW], field.default),
            annotation=types[field.name],
        )
        for field in _own_first(options)
    ]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return function


def _own_first(options: type) -> list[dataclasses.Field[Any]]:
    """Return the fields of a dataclass, inherited ones last, as their group is in `--help`."""
    own = list(options.__annotations__)
    fields = dataclasses.fields(options)
    return sorted(fields, key=lambda field: own.index(field.name) if field.name in own else len(own))


def for_typer(name: str, kind: Any, properties: Option, default: Any = REQUIRED) -> Any:
    """Return the properties as typer takes them: as the default of a parameter, or without one as its annotation."""
    kinds = get_args(kind) or (kind,)  # those of a union or a list
    settings: dict[str, Any] = {
        "rich_help_panel": properties.group,
        "help": properties.help,
        "hidden": properties.is_hidden,
        "metavar": properties.metavar,
        "envvar": properties.envvar,
        "min": properties.min,
        "max": properties.max,
        "parser": properties.parse or (path if Path in kinds else None),
    }
    first = ... if default is REQUIRED else default
    if properties.is_argument:
        return typer.Argument(first, **settings)
    # Without names, typer would give a flag a negative one, `--no-NAME`.
    names = properties.names or ((spelled(name),) if bool in kinds else ())
    return typer.Option(first, *names, **settings)
