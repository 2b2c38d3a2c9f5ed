"""Several DNS processes on the same ports, watched by their parent. `cli/dns.py` calls this for `--processes`.

The processes share the ports (SO_REUSEPORT) and nothing else: each watches the cluster by itself. Addresses that are
served on the node are held by one more process, to which the others have a pipe.
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
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def supervise(count: int, work: Callable[[int, int], None], hold: Callable[[int], None] | None = None) -> int:
    """Run `work(0, pipe)` to `work(count - 1, pipe)` in processes of their own until SIGTERM or SIGINT; then return 0.

    `hold(pipe)` runs in one more process: it reads what the others write to the pipe, and end of file when they are
    gone. If one process ends by itself, all are ended and 1 is returned, so that the pod is restarted.
    """
    children: set[int] = set()
    is_stopping = False

    def stop(*_: object) -> None:
        nonlocal is_stopping
        is_stopping = True
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM)

    # A signal that comes while the processes are started is handled when all of them exist.
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
    reader, writer = os.pipe()
    if hold is not None:
        children.add(_fork("the holder of addresses", lambda: hold(reader), closed=writer))
    for number in range(count):
        children.add(_fork(f"process {number}", partial(work, number, writer), closed=reader))
    os.close(reader)
    os.close(writer)
    for end in _STOP_SIGNALS:
        signal.signal(end, stop)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP_SIGNALS)
    failed = False
    while children:
        child, status = os.wait()
        children.discard(child)
        if not is_stopping or status:
            log.log(logging.INFO if is_stopping else logging.ERROR, "process %d ended with status %d", child, status)
            failed = failed or not is_stopping
        if not is_stopping:
            stop()
    return 1 if failed else 0


def _fork(name: str, work: Callable[[], None], *, closed: int) -> int:
    parent = os.getpid()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)  # end with the parent
        os.close(closed)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP_SIGNALS)
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
