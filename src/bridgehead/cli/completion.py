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
from pathlib import Path
from typing import Annotated, Any

import typer

from bridgehead.proxy.config import MODES

from .completion_values import LiveValues, list_values
from .parsing import path

# Values that the scripts ask for when the user presses the key, by option and by the command's first argument.
_LIVE_OPTIONS = {"--name": LiveValues.LABS, "--node": LiveValues.NODES}
# Options of a command line by which a script asks for the values of another lab or namespace.
_CHOICES = ("--name", "--state-dir", "--namespace", "-n")
_LIVE_ARGUMENTS = {
    "logs": LiveValues.PARTS,
    "shell": LiveValues.NODES,
    **dict.fromkeys(("doctor", "trace", "wait", "rules", "flows"), LiveValues.SERVICES),
}
_FIXED_ARGUMENTS = {"diff-modes": MODES}


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@dataclass(frozen=True)
class Option:
    """One option of a subcommand. `values` are its choices, or `live` what they are asked for; `takes_file` is for
    options with a path as value."""

    names: tuple[str, ...]
    help: str
    takes_value: bool
    takes_file: bool
    values: tuple[str, ...]
    live: LiveValues | None = None


@dataclass(frozen=True)
class Subcommand:
    """One subcommand; `values` are the choices of its first argument, or `live` what they are asked for."""

    name: str
    help: str
    options: tuple[Option, ...]
    values: tuple[str, ...]
    live: LiveValues | None = None


def command(
    shell: Annotated[
        Shell | None,
        typer.Argument(metavar="bash|zsh|fish", help="The shell that will read the script.", show_default=False),
    ] = None,
    live: Annotated[
        LiveValues | None,
        typer.Option("--list", hidden=True, help="Print the current values of one kind, for the scripts."),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", envvar="BRIDGEHEAD_NAME", hidden=True)] = None,
    namespace: Annotated[str, typer.Option("--namespace", "-n", hidden=True)] = "default",
    state_dir: Annotated[Path | None, typer.Option("--state-dir", parser=path, hidden=True)] = None,
) -> None:
    if live is not None:
        sys.stdout.write("".join(f"{value}\n" for value in list_values(live, name, namespace, state_dir)))
        return
    if shell is None:
        raise typer.BadParameter("name a shell: bash, zsh or fish")
    renderers = {Shell.BASH: render_bash, Shell.ZSH: render_zsh, Shell.FISH: render_fish}
    sys.stdout.write(renderers[shell](list(_subcommands())))


def _subcommands() -> Iterator[Subcommand]:
    from bridgehead import cli

    yield Subcommand("help", "Explain a command.", (), tuple(cli.COMMANDS))
    for name, (_, text) in cli.COMMANDS.items():
        params = cli.load_command(name).params
        options = [param for param in params if param.param_type_name == "option" and not param.hidden]
        arguments = [param for param in params if param.param_type_name == "argument"]
        yield Subcommand(
            name=name,
            help=text,
            options=(*map(_option, options), Option(("-h", "--help"), "Show the help and exit.", False, False, ())),
            values=_FIXED_ARGUMENTS.get(name) or (_values(arguments[0]) if arguments else ()),
            live=_LIVE_ARGUMENTS.get(name),
        )


def _option(param: Any) -> Option:
    is_flag = bool(getattr(param, "is_flag", False))
    return Option(
        names=(*param.opts, *param.secondary_opts),
        help=" ".join((param.help or "").split()),
        takes_value=not is_flag,
        takes_file=not is_flag and getattr(param.type, "name", "") == "path",
        values=_values(param),
        live=None if is_flag else next((_LIVE_OPTIONS[opt] for opt in param.opts if opt in _LIVE_OPTIONS), None),
    )


def _values(param: Any) -> tuple[str, ...]:
    choices: Sequence[Any] = getattr(param.type, "choices", ())
    return tuple(str(getattr(choice, "value", choice)) for choice in choices)


def render_bash(subcommands: Sequence[Subcommand]) -> str:
    """Return a script that defines `_bridgehead` and registers it with bash's `complete`."""
    lines = [
        "# bash completion of bridgehead",
        "# Prints values that change, of the lab and namespace that the command line chooses.",
        "_bridgehead_list() {",
        "    local index word chosen=()",
        "    for ((index = 2; index < COMP_CWORD; index++)); do",
        '        word="${COMP_WORDS[index]}"',
        '        case "$word" in',
        f"            {' | '.join(_CHOICES)})",
        '                [[ "${COMP_WORDS[index + 1]}" == "=" ]] && ((index++))',
        '                chosen+=("$word" "${COMP_WORDS[index + 1]}")',
        "                ;;",
        "        esac",
        "    done",
        '    "${COMP_WORDS[0]}" completion --list "$1" "${chosen[@]}" 2>/dev/null',
        "}",
        "_bridgehead() {",
        '    local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD - 1]}" words=""',
        "    COMPREPLY=()",
        "    # Readline's words end before and after an equals sign.",
        '    if [[ "$current" == "=" ]]; then',
        '        current=""',
        '    elif [[ "$previous" == "=" ]]; then',
        '        previous="${COMP_WORDS[COMP_CWORD - 2]}"',
        "    fi",
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
                if option.values or option.live:
                    choices = f"$(_bridgehead_list {option.live})" if option.live else " ".join(option.values)
                    lines.append(f'            mapfile -t COMPREPLY < <(compgen -W "{choices}" -- "$current")')
                elif option.takes_file:
                    lines.append('            mapfile -t COMPREPLY < <(compgen -f -- "$current")')
                lines += ["            return", "            ;;"]
    lines += ["    esac", '    case "${COMP_WORDS[1]}" in']
    for subcommand in subcommands:
        choices = " ".join([*(name for option in subcommand.options for name in option.names), *subcommand.values])
        if subcommand.live:
            lines.append(f'        {subcommand.name}) words="{choices} $(_bridgehead_list {subcommand.live})" ;;')
        else:
            lines.append(f'        {subcommand.name}) words="{choices}" ;;')
    lines += [
        "    esac",
        '    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")',
        "}",
        "complete -o default -F _bridgehead bridgehead",
    ]
    return "".join(f"{line}\n" for line in lines)


def render_zsh(subcommands: Sequence[Subcommand]) -> str:
    """Return a script for a file `_bridgehead` in zsh's $fpath."""
    lines = [
        "#compdef bridgehead",
        "",
        "# Completes values that change, of the lab and namespace that the command line chooses.",
        "_bridgehead_list() {",
        "    local -a chosen values",
        "    local index",
        "    for ((index = 2; index < CURRENT; index++)); do",
        f'        [[ "${{words[index]}}" == ({"|".join(_CHOICES)}) ]] || continue',
        '        chosen+=("${words[index]}" "${words[index + 1]}")',
        "    done",
        '    values=(${(f)"$(${(Q)program} completion --list $1 $chosen 2>/dev/null)"})',
        "    compadd -a values",
        "}",
        "",
        "_bridgehead() {",
        "    local -a commands",
        "    commands=(",
    ]
    lines += [f"        {_quote(f'{each.name}:{each.help}')}" for each in subcommands]
    lines += [
        "    )",
        "    if ((CURRENT == 2)); then",
        "        _describe command commands",
        "        return",
        "    fi",
        '    local program="${words[1]}" command="${words[2]}"',
        "    shift words",
        "    ((CURRENT--))",
        '    case "$command" in',
    ]
    for subcommand in subcommands:
        specifications = [_zsh_option(option) for option in subcommand.options]
        if subcommand.live:
            positional = f"1: :{{_bridgehead_list {subcommand.live}}}"
        else:
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
        if option.live:
            value = f"{{_bridgehead_list {option.live}}}"
        else:
            value = f"({' '.join(option.values)})" if option.values else "_files" if option.takes_file else " "
        action = f": :{value}"
    body = _quote(f"[{text}]{action}")
    if len(option.names) == 1:
        return f"{option.names[0]}{body}"
    return f"'({' '.join(option.names)})'{{{','.join(option.names)}}}{body}"


def render_fish(subcommands: Sequence[Subcommand]) -> str:
    """Return a script for fish's completions directory."""
    lines = [
        "# fish completion of bridgehead",
        "# Prints values that change, of the lab and namespace that the command line chooses.",
        "function __bridgehead_list",
        "    set -l words (commandline -opc)",
        "    set -l chosen",
        "    for index in (seq 2 (math (count $words) - 1))",
        f"        if contains -- $words[$index] {' '.join(_CHOICES)}",
        "            set -a chosen $words[$index] $words[(math $index + 1)]",
        "        end",
        "    end",
        "    $words[1] completion --list $argv[1] $chosen 2>/dev/null",
        "end",
        "complete -c bridgehead -f",
    ]
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
                choices = f"(__bridgehead_list {option.live})" if option.live else " ".join(option.values)
                value = f" -x -a {_fish_quote(choices)}" if choices else " -r" if option.takes_file else " -x"
                value += " -F" if option.takes_file else ""
            lines.append(f"complete -c bridgehead {condition} {names}{value} -d {_fish_quote(option.help)}")
        choices = f"(__bridgehead_list {subcommand.live})" if subcommand.live else " ".join(subcommand.values)
        if choices:
            lines.append(f"complete -c bridgehead {condition} -a {_fish_quote(choices)}")
    return "".join(f"{line}\n" for line in lines)


def _quote(text: str) -> str:
    """Quote for a POSIX shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def _fish_quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
