"""Command lines of this package's own programs."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def command_line(module: str, *arguments: object) -> Sequence[str]:
    """Return the command line of a module. The program imports nothing of its working directory."""
    return [sys.executable, "-P", "-m", module, *map(str, arguments)]
