"""Lines about a run on standard error, while it goes on."""

from __future__ import annotations

import sys
import time


def log(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')}  {text}\n")
    sys.stderr.flush()
