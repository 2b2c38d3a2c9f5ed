"""`bridgehead up` with a lab that restarts its hanging parts after seconds, for tests that cannot wait for longer."""

from __future__ import annotations

import functools

from bridgehead import cli
from bridgehead.lab import launch
from bridgehead.lab.supervisor import Supervisor

SILENT_SECONDS = 3.0


def up(argv: list[str]) -> None:
    launch.Supervisor = functools.partial(Supervisor, silent_seconds=SILENT_SECONDS)  # type: ignore[assignment, attr-defined]
    cli.main(argv)
