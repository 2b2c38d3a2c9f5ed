"""The dashboard of a lab as a process of its own, for `bridgehead up --dashboard`. It ends with the lab."""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import time
from typing import NamedTuple

from bridgehead.lab.plan import LabFiles

_SECONDS = 30.0  # until it has printed its address
_ADDRESS = re.compile(rb"http://127\.0\.0\.1:\d+/#token=[\w-]+(?=\s)")


class Dashboard(NamedTuple):
    """`address`: "" if it did not start. `sentence`: has the address, or the reason why there is none."""

    address: str
    sentence: str


def start(files: LabFiles) -> Dashboard:
    """Start the dashboard of a lab that runs."""
    log = files.log("dashboard")
    try:
        with log.open("wb") as errors:
            process = subprocess.Popen(
                _command(["dashboard", "--no-browser", "--kubeconfig", str(files.kubeconfig)]),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,  # a Ctrl-C at the terminal stops the lab, and by its end the dashboard
            )
    except OSError as error:
        return Dashboard("", f"The dashboard did not start: {error.strerror}.")
    if process.stdout is None:
        return Dashboard("", "The dashboard did not start.")
    with process.stdout:
        address = _read_address(process.stdout.fileno())
    if address:
        return Dashboard(address, f"The dashboard is at {address}")
    process.kill()
    process.wait()
    return Dashboard("", f"The dashboard did not start: {log} has the reason.")


def _command(arguments: list[str]) -> list[str]:
    """Return the program with these arguments. It finds the modules of this process, and none in its directory."""
    paths = [os.path.abspath(path) for path in sys.path if path]
    run = f"import sys; sys.path[:] = {paths!r}; from bridgehead.cli import main; main({arguments!r})"
    return [sys.executable, "-I", "-c", run]


def _read_address(descriptor: int) -> str:
    """Return the address that the process prints; "" if it ends or takes too long."""
    text = b""
    deadline = time.monotonic() + _SECONDS
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([descriptor], [], [], left)[0]:
            break
        data = os.read(descriptor, 4096)
        if not data:
            break
        text += data
        found = _ADDRESS.search(text)
        if found:
            return found[0].decode()
    return ""
