"""Several DNS processes on the same ports, watched by their parent. `cli/dns.py` calls this for `--processes`.

Each follows the cluster by itself: nothing is shared but the ports (SO_REUSEPORT).
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import signal
from collections.abc import Callable

from .errors import DnsError

log = logging.getLogger(__name__)

_PR_SET_PDEATHSIG = 1


def supervise(count: int, work: Callable[[int], None]) -> int:
    """Run `work(0)` to `work(count - 1)` in processes of their own until SIGTERM or SIGINT; then 0.

    Where one ends by itself, all are ended, and 1 is returned: whoever started us starts us again.
    """
    children = {_fork(number, work) for number in range(count)}
    asked = False

    def stop(*_: object) -> None:
        nonlocal asked
        asked = True
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    failed = False
    while children:
        child, status = os.wait()
        children.discard(child)
        if not asked or status:
            log.log(logging.INFO if asked else logging.ERROR, "process %d ended with status %d", child, status)
            failed = failed or not asked
        if not asked:
            stop()
    return 1 if failed else 0


def _fork(number: int, work: Callable[[int], None]) -> int:
    parent = os.getpid()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)  # nobody answers for a parent that is gone
        if os.getppid() == parent:
            work(number)
            code = 0
    except* DnsError as group:
        first: BaseException = group
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        log.error("%s", first)
    except* Exception:
        log.exception("process %d", number)
    finally:
        os._exit(code)
