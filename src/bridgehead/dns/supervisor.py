"""Several DNS processes on the same ports, watched by their parent. `cli/dns.py` calls this for `--processes`.

Each follows the cluster by itself: nothing is shared but the ports (SO_REUSEPORT). Addresses that are served on the
node are held by one process more, which hears from the others through a pipe.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import signal
from collections.abc import Callable
from functools import partial

from .errors import DnsError

log = logging.getLogger(__name__)

_PR_SET_PDEATHSIG = 1
_ENDS = (signal.SIGTERM, signal.SIGINT)


def supervise(count: int, work: Callable[[int, int], None], hold: Callable[[int], None] | None = None) -> int:
    """Run `work(0, pipe)` to `work(count - 1, pipe)` in processes of their own until SIGTERM or SIGINT; then 0.

    `hold(pipe)` is run in another: it can read what they write, and sees when they are gone. Where one ends by itself,
    all are ended, and 1 is returned: whoever started us starts us again.
    """
    children: set[int] = set()
    asked = False

    def stop(*_: object) -> None:
        nonlocal asked
        asked = True
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM)

    # Whoever sees the first of them answer may end us at once: a signal waits until all are there.
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)
    reader, writer = os.pipe()
    if hold is not None:
        children.add(_fork("the holder of addresses", lambda: hold(reader), closed=writer))
    for number in range(count):
        children.add(_fork(f"process {number}", partial(work, number, writer), closed=reader))
    os.close(reader)
    os.close(writer)
    for end in _ENDS:
        signal.signal(end, stop)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDS)
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


def _fork(name: str, work: Callable[[], None], *, closed: int) -> int:
    parent = os.getpid()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)  # nobody answers for a parent that is gone
        os.close(closed)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDS)
        if os.getppid() == parent:
            work()
            code = 0
    except* DnsError as group:
        first: BaseException = group
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        log.error("%s", first)
    except* Exception:
        log.exception("%s", name)
    finally:
        os._exit(code)
