"""Scripts for built-in programs, so that a shell in the container can start them.

`command: ["sh", "-c", "echo hello > /usr/share/nginx/html/index.html && nginx -g 'daemon off;'"]` is how many manifests
configure an image. The runtime writes the scripts into the container; they run this module with the runtime's
interpreter.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import Final, NoReturn

import msgspec

from bridgehead.kubelet.runtimes.standins.standin import Launch, Setup, StandIn

DIRECTORY: Final = "/usr/local/sbin"  # first in PATH


def scripts(stand_in: StandIn, tag: str, setup: Setup) -> dict[str, str]:
    """Scripts for all programs of a stand-in: path in the container -> content."""
    encoded = msgspec.json.encode(setup)
    paths = {f"{DIRECTORY}/{program}": program for program in stand_in.programs}
    paths |= {f"/{program}": program for program in stand_in.programs if f"/{program}" in stand_in.entrypoint}
    return {
        path: (
            f"#!{sys.executable}\n"
            "import sys\n"
            f"sys.path[:] = {sys.path!r}\n"
            "from bridgehead.kubelet.runtimes.standins.program_scripts import main\n"
            f"main({stand_in.name!r}, {program!r}, {tag!r}, {encoded!r})\n"
        )
        for path, program in paths.items()
    }


def main(stand_in_name: str, program: str, tag: str, setup: bytes) -> NoReturn:
    """Run a built-in program and exit with its exit code. Called by the scripts."""
    from bridgehead.kubelet.runtimes.standins.table import STAND_INS

    launch = Launch(
        argv=tuple(sys.argv),
        tag=tag,
        hostname=socket.gethostname(),
        environment=dict(os.environ),
        setup=msgspec.json.decode(setup, type=Setup),
    )
    for stand_in in STAND_INS:
        if stand_in.name == stand_in_name:
            raise SystemExit(stand_in.programs[program](launch))
    raise SystemExit(f"{program}: no such built-in program")
