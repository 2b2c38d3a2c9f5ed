"""Print the environment for a cluster, for a shell to read: PATH, KUBECONFIG and BRIDGEHEAD_NAME.

PATH is printed if `bridgehead` is not found in it yet. For a cluster with a --state-dir, to which no name leads, a
BRIDGEHEAD_NAME is removed. A stopped cluster has an environment, too. Example:

    eval "$(bridgehead env)"
    bridgehead env --shell fish | source
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from bridgehead.lab import state_directories
from bridgehead.lab.plan import LabFiles

from .lab_options import DEFAULT_NAME, Name, StateDir, find_lab, reporting_errors


class Syntax(StrEnum):
    SH = "sh"
    FISH = "fish"


def command(
    name: Name = None,
    state_dir: StateDir = None,
    shell: Annotated[Syntax, typer.Option(help="The shell's syntax: sh (also bash and zsh), or fish.")] = Syntax.SH,
) -> None:
    with reporting_errors():
        files = find_lab(name, state_dir)
        if not files.kubeconfig.exists():
            state_directories.read_running(files)
    render = _render_fish if shell is Syntax.FISH else _render_sh
    # Semicolons, because `eval $(...)` without quotes joins the lines.
    sys.stdout.write("".join(f"{render(key, value)};\n" for key, value in _variables(files, name).items()))


def _variables(files: LabFiles, name: str | None) -> dict[str, str | None]:
    """Return the variables to set, and as None the one to remove."""
    program = Path(sys.argv[0]).absolute()
    found = shutil.which("bridgehead")
    variables: dict[str, str | None] = {}
    if program.name == "bridgehead" and not (found and os.path.samefile(found, program)):
        variables["PATH"] = str(program.parent)
    variables["KUBECONFIG"] = str(files.kubeconfig)
    if files == state_directories.find_files(lab := state_directories.find_name(files, name or DEFAULT_NAME), None):
        variables["BRIDGEHEAD_NAME"] = lab
    elif "BRIDGEHEAD_NAME" in os.environ:
        variables["BRIDGEHEAD_NAME"] = None  # that of another lab, which the shell's next commands would be for
    return variables


def _render_sh(key: str, value: str | None) -> str:
    if value is None:
        return f"unset {key}"
    rest = ':"$PATH"' if key == "PATH" else ""
    return f"export {key}={shlex.quote(value)}{rest}"


def _render_fish(key: str, value: str | None) -> str:
    if value is None:
        return f"set -e {key}"
    quoted = value.replace("\\", "\\\\").replace("'", "\\'")
    rest = " $PATH" if key == "PATH" else ""
    return f"set -gx {key} '{quoted}'{rest}"
