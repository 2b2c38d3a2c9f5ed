"""The program of the process beside a lab that pulls images: `python -m bridgehead.cli.puller LAB`

No subcommand: the process that waits for the first request starts it (see `bridgehead.lab.puller`).
"""

from __future__ import annotations

import sys

from bridgehead.lab import puller

from . import logs_setup

if __name__ == "__main__":
    logs_setup.configure()
    puller.serve(sys.argv[1])
