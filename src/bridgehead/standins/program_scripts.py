"""Scripts for built-in programs, so that a shell in the container can start them.

`command: ["sh", "-c", "echo hello > /usr/share/nginx/html/index.html && nginx -g 'daemon off;'"]` is how many manifests
configure an image. The runtime writes the scripts into the container; they run this module with the runtime's
interpreter.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Collection
from functools import lru_cache
from typing import Final, NoReturn

import msgspec

from .standin import Launch, Setup, StandIn, load_program

DIRECTORY: Final = "/usr/local/sbin"  # first in PATH
# Directory in containers of tools for what the scripts need of this interpreter, so that `ls /` shows only what images
# have.
OWN_FILES: Final = "/usr/lib/bridgehead"
_NO_SETUP: Final = Setup()


def scripts(stand_in: StandIn, tag: str, setup: Setup, moved: Collection[str] = ()) -> dict[str, str]:
    """Scripts for all programs of a stand-in: path in the container -> content. `moved` as for `script`."""
    paths = {f"{DIRECTORY}/{name}": program for name, program in stand_in.programs.items()}
    paths |= {f"/{name}": program for name, program in stand_in.programs.items() if f"/{name}" in stand_in.entrypoint}
    return {path: script(program, tag, setup, moved) for path, program in paths.items()}


def script(program: str, tag: str = "", setup: Setup = _NO_SETUP, moved: Collection[str] = ()) -> str:
    """A script for a built-in program, which imports only the program's module. `program` as for `load_program`.

    `moved` are directories that the container has below `OWN_FILES`. The interpreter reads neither the container's
    PYTHON variables nor `site`, whose result is in the script.
    """

    def locate(path: str) -> str:
        path = _real_path(path)
        is_moved = any(path == directory or path.startswith(f"{directory}/") for directory in moved)
        return OWN_FILES + path if is_moved else path

    return (
        f"#!{locate(sys.executable)} -IS\n"
        "import sys\n"
        f"sys.path[:] = {[locate(path) for path in sys.path if path]!r}\n"
        "from bridgehead.standins.program_scripts import main\n"
        f"main({program!r}, {tag!r}, {msgspec.json.encode(setup)!r})\n"
    )


@lru_cache(maxsize=64)  # for the interpreter and its modules, in each container
def _real_path(path: str) -> str:
    return os.path.realpath(path)


def main(program: str, tag: str, setup: bytes) -> NoReturn:
    """Run a built-in program and exit with its exit code. Called by the scripts."""
    launch = Launch(
        argv=tuple(sys.argv),
        tag=tag,
        hostname=socket.gethostname(),
        environment=dict(os.environ),
        setup=msgspec.json.decode(setup, type=Setup),
    )
    raise SystemExit(load_program(program)(launch))
