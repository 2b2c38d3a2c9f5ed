"""The host's BusyBox for stand-ins of BusyBox images: a directory with a link for each applet."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Final

# The directory in a container, first in PATH.
APPLETS: Final = "/usr/lib/busybox"


def prepare_applets(directory: str) -> str:
    """Fill `directory` with links for the applets; returns it, or "" if the host has no (working) BusyBox."""
    program = shutil.which("busybox")
    if program is None:
        return ""
    try:
        listed = (
            subprocess.run([program, "--list"], capture_output=True, check=True, timeout=10).stdout.decode().split()
        )
        os.makedirs(directory, exist_ok=True)
        for applet in listed:
            link = os.path.join(directory, applet)
            if not os.path.lexists(link):
                os.symlink(program, link)
    except (OSError, subprocess.SubprocessError):
        return ""
    return directory
