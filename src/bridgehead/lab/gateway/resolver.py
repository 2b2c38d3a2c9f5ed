"""The machine's resolver: systemd-resolved asks a lab's DNS for the lab's names while there is the link to the lab."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bridgehead.lab import preflight
from bridgehead.lab.plan import CLUSTER_DOMAIN

_RESOLVED: Final = Path("/run/systemd/resolve")  # exists while it runs
_SECONDS: Final = 10


def register_names(link: str, servers: Sequence[str], resolved: Path = _RESOLVED) -> str:
    """Let systemd-resolved ask the cluster's DNS for its names; it forgets that with the link.

    Returns why it does not, or "".
    """
    if not resolved.is_dir():
        return "systemd-resolved does not run"
    program = preflight.find_system_program("resolvectl")
    if program is None:
        return "the command `resolvectl` is missing"
    # The servers come last: without a domain, they would be asked for all names of the machine.
    for arguments in (("default-route", link, "no"), ("domain", link, f"~{CLUSTER_DOMAIN}"), ("dns", link, *servers)):
        try:
            _run(program, *arguments)
        except (OSError, subprocess.SubprocessError) as error:
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                _run(program, "revert", link)
            if not isinstance(error, subprocess.CalledProcessError):
                return "resolvectl does not answer"
            return f"resolvectl refuses the lab's name server ({preflight.first_line(error.stderr)})"
    return ""


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True, timeout=_SECONDS)
