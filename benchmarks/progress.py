"""Tells whoever waits for the benchmarks what is being measured; the results go elsewhere."""

from __future__ import annotations

import sys
import time


def say(text: str) -> None:
    """A line of standard error, after the time of day."""
    print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)
