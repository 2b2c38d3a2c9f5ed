"""The machine's resolver: systemd-resolved asks a lab's DNS for the lab's names while there is the link to the lab."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bridgehead.lab import host
from bridgehead.lab.plan import CLUSTER_DOMAIN

_RESOLVED: Final = Path("/run/systemd/resolve")  # exists while it runs
_SECONDS: Final = 10


def register_names(link: str, servers: Sequence[str], resolved: Path = _RESOLVED) -> str:
    """Let systemd-resolved ask the cluster's DNS for its names; it forgets that with the link.

    Returns why it does not, or "".
    """
    if not resolved.is_dir():
        return "systemd-resolved does not run"
    program = host.find_system_program("resolvectl")
    if program is None:
        return "the command `resolvectl` is missing"
    for arguments in (("dns", link, *servers), ("domain", link, f"~{CLUSTER_DOMAIN}"), ("default-route", link, "no")):
        try:
            subprocess.run([program, *arguments], check=True, capture_output=True, timeout=_SECONDS)
        except subprocess.CalledProcessError as error:
            reason = error.stderr.decode(errors="replace").strip().splitlines()
            return f"resolvectl refuses the lab's name server ({reason[0] if reason else 'no reason given'})"
        except (OSError, subprocess.TimeoutExpired):
            return "resolvectl does not answer"
    return ""
