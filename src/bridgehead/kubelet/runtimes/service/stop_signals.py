"""Stop signals of images.

Source: containerd's `moby/sys/signal` (`ParseSignal`).
"""

from __future__ import annotations

import re
import signal

_FORM = re.compile(r"(\w{0,16})([+-]\d{1,2})?", re.ASCII)


def parse_signal(text: str) -> int:
    """Return the number of a stop signal ("SIGQUIT", "RTMIN+3", "3"), SIGTERM if it names none that exists."""
    found = _FORM.fullmatch(text.strip().upper())
    if found is None:
        return signal.SIGTERM
    name, offset = found[1], int(found[2] or 0)
    base = int(name) if name.isdecimal() else int(getattr(signal.Signals, f"SIG{name.removeprefix('SIG')}", 0))
    return base + offset if base and base + offset in signal.valid_signals() else signal.SIGTERM
