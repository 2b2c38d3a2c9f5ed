"""Print a completion script for bash, zsh or fish.

The shell reads the script at its start from one of these files. DIRECTORY is one of zsh's $fpath.

    bridgehead completion bash > ~/.local/share/bash-completion/completions/bridgehead
    bridgehead completion zsh > DIRECTORY/_bridgehead
    bridgehead completion fish > ~/.config/fish/completions/bridgehead.fish
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@dataclass(frozen=True)
class Option:
    """One option of a subcommand. `values` are its choices; `takes_file` is for options with a path as value."""

    names: tuple[str, ...]
    help: str
    takes_value: bool
    takes_file: bool
    values: tuple[str, ...]


@dataclass(frozen=True)
class Subcommand:
    """One subcommand; `values` are the choices of its first argument."""

    name: str
    help: str
    options: tuple[Option, ...]
    values: tuple[str, ...]


def command(
    shell: Annotated[
        Shell, typer.Argument(metavar="bash|zsh|fish", help="The shell that will read the script.", show_default=False)
    ],
) -> None:
    renderers = {Shell.BASH: render_bash, Shell.ZSH: render_zsh, Shell.FISH: render_fish}
    sys.stdout.write(renderers[shell](list(_subcommands())))


def _subcommands() -> Iterator[Subcommand]:
    from bridgehead import cli

    yield Subcommand("help", "Explain a command.", (), tuple(cli.COMMANDS))
    for name, (_, text) in cli.COMMANDS.items():
        params = cli.load(name).params
        options = [param for param in params if param.param_type_name == "option" and not param.hidden]
        arguments = [param for param in params if param.param_type_name == "argument"]
        yield Subcommand(
            name=name,
            help=text,
            options=(*map(_option, options), Option(("-h", "--help"), "Show the help and exit.", False, False, ())),
            values=_values(arguments[0]) if arguments else (),
        )


def _option(param: Any) -> Option:
    is_flag = bool(getattr(param, "is_flag", False))
    return Option(
        names=(*param.opts, *param.secondary_opts),
        help=" ".join((param.help or "").split()),
        takes_value=not is_flag,
        takes_file=not is_flag and getattr(param.type, "name", "") == "path",
        values=_values(param),
    )


def _values(param: Any) -> tuple[str, ...]:
    choices: Sequence[Any] = getattr(param.type, "choices", ())
    return tuple(str(getattr(choice, "value", choice)) for choice in choices)


def render_bash(subcommands: Sequence[Subcommand]) -> str:
    """Return a script that defines `_bridgehead` and registers it with bash's `complete`."""
    lines = [
        "# bash completion of bridgehead",
        "_bridgehead() {",
        '    local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD - 1]}" words=""',
        "    COMPREPLY=()",
        "    if ((COMP_CWORD == 1)); then",
        f'        words="{" ".join(each.name for each in subcommands)}"',
        '        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")',
        "        return",
        "    fi",
        '    case "${COMP_WORDS[1]} $previous" in',
    ]
    for subcommand in subcommands:
        for option in subcommand.options:
            if option.takes_value:
                patterns = " | ".join(f'"{subcommand.name} {name}"' for name in option.names)
                lines.append(f"        {patterns})")
                if option.values:
                    lines.append(
                        f'            mapfile -t COMPREPLY < <(compgen -W "{" ".join(option.values)}" -- "$current")'
                    )
                elif option.takes_file:
                    lines.append('            mapfile -t COMPREPLY < <(compgen -f -- "$current")')
                lines += ["            return", "            ;;"]
    lines += ["    esac", '    case "${COMP_WORDS[1]}" in']
    for subcommand in subcommands:
        names = [name for option in subcommand.options for name in option.names]
        lines.append(f'        {subcommand.name}) words="{" ".join([*names, *subcommand.values])}" ;;')
    lines += [
        "    esac",
        '    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")',
        "}",
        "complete -o default -F _bridgehead bridgehead",
    ]
    return "".join(f"{line}\n" for line in lines)


def render_zsh(subcommands: Sequence[Subcommand]) -> str:
    """Return a script for a file `_bridgehead` in zsh's $fpath."""
    lines = ["#compdef bridgehead", "", "_bridgehead() {", "    local -a commands", "    commands=("]
    lines += [f"        {_quote(f'{each.name}:{each.help}')}" for each in subcommands]
    lines += [
        "    )",
        "    if ((CURRENT == 2)); then",
        "        _describe command commands",
        "        return",
        "    fi",
        '    local command="${words[2]}"',
        "    shift words",
        "    ((CURRENT--))",
        '    case "$command" in',
    ]
    for subcommand in subcommands:
        specifications = [_zsh_option(option) for option in subcommand.options]
        positional = f"1: :({' '.join(subcommand.values)})" if subcommand.values else "*: :_default"
        lines.append(f"        {subcommand.name})")
        lines.append("            _arguments \\")
        lines += [f"                {specification} \\" for specification in specifications]
        lines += [f"                {_quote(positional)}", "            ;;"]
    lines += ["    esac", "}", "", 'if [ "$funcstack[1]" = "_bridgehead" ]; then', '    _bridgehead "$@"']
    lines += ["else", "    compdef _bridgehead bridgehead", "fi"]
    return "".join(f"{line}\n" for line in lines)


def _zsh_option(option: Option) -> str:
    text = option.help.translate({ord("["): "(", ord("]"): ")", ord(":"): ","})
    action = ""
    if option.takes_value:
        value = f"({' '.join(option.values)})" if option.values else "_files" if option.takes_file else " "
        action = f": :{value}"
    body = _quote(f"[{text}]{action}")
    if len(option.names) == 1:
        return f"{option.names[0]}{body}"
    return f"'({' '.join(option.names)})'{{{','.join(option.names)}}}{body}"


def render_fish(subcommands: Sequence[Subcommand]) -> str:
    """Return a script for fish's completions directory."""
    lines = ["# fish completion of bridgehead", "complete -c bridgehead -f"]
    lines += [
        f"complete -c bridgehead -n __fish_use_subcommand -a {each.name} -d {_fish_quote(each.help)}"
        for each in subcommands
    ]
    for subcommand in subcommands:
        condition = f"-n '__fish_seen_subcommand_from {subcommand.name}'"
        for option in subcommand.options:
            names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
            value = ""
            if option.takes_value:
                value = (
                    f" -x -a {_fish_quote(' '.join(option.values))}"
                    if option.values
                    else " -r"
                    if option.takes_file
                    else " -x"
                )
                value += " -F" if option.takes_file else ""
            lines.append(f"complete -c bridgehead {condition} {names}{value} -d {_fish_quote(option.help)}")
        if subcommand.values:
            lines.append(f"complete -c bridgehead {condition} -a {_fish_quote(' '.join(subcommand.values))}")
    return "".join(f"{line}\n" for line in lines)


def _quote(text: str) -> str:
    """Quote for a POSIX shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def _fish_quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
