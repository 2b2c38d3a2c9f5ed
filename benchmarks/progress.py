"""Progress messages on standard error; results go to standard output."""

from __future__ import annotations

import sys
import time


def log(text: str) -> None:
    """Write a line to standard error, after the time of day."""
    print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)
