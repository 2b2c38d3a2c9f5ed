"""uvicorn, imported without its command line, which needs click and multiprocessing: 40 ms and 3 MiB.

The package's own module imports the command (`uvicorn.main`). `server` and `peer_protocol` import uvicorn from here,
before any other module does.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from types import ModuleType

_COMMAND = "uvicorn.main"


@contextlib.contextmanager
def _no_command() -> Iterator[None]:
    """Put an empty module into the command's place during the block, unless somebody else has imported uvicorn."""
    if "uvicorn" in sys.modules:
        yield
        return
    empty = ModuleType(_COMMAND)
    vars(empty).update(Server=None, main=None, run=None)  # the names that the package imports
    sys.modules[_COMMAND] = empty
    try:
        yield
    finally:
        del sys.modules[_COMMAND]


with _no_command():
    from uvicorn.config import Config
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
    from uvicorn.server import Server

__all__ = ["Config", "HttpToolsProtocol", "RequestResponseCycle", "Server"]
