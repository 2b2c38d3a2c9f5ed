"""Keeps Python's search for reference cycles out of work on thousands of objects. `agent.py` wraps its rounds in it.

What a proxy holds has no cycles: objects of the API, Frontends, texts. But the more of it is made at once the more
often all of it is searched, which at 44,000 Services took half of the time, and later stopped everything for long
whenever a few small things had come and gone.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

MANY = 1000


@contextlib.contextmanager
def bulk(objects: int) -> Iterator[None]:
    """Many objects are made inside, and stay. For few it does nothing."""
    if objects < MANY or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # not searched again; what is replaced is still freed at once, by its count of references
        gc.enable()
