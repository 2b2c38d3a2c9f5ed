"""Memory that was needed once goes back to the system.

Called by `cli/proxy.py` when everything is programmed, and by modes after big work.
"""

from __future__ import annotations

import ctypes


def give_back() -> None:
    """What the C library holds free: libnftables and the first lists leave more than a MiB, far more in big clusters.

    glibc keeps it because something that lives lies above. Does nothing where the C library is another one.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except AttributeError:
        return
    trim(ctypes.c_size_t(0))
