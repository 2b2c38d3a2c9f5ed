"""Print the version of Bridgehead."""

from __future__ import annotations

import sys

from bridgehead import __version__


def command() -> None:
    sys.stdout.write(f"bridgehead {__version__}\n")
