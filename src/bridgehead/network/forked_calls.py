"""Calls of a function in a forked process, which may enter other namespaces, for asyncio.

A fork costs some milliseconds, much less than a program. The child has only the thread that forks: the function must
not use what other threads have locked, nor the event loop and connections of its parent.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import pickle
import signal
from collections.abc import Callable
from typing import Final, NoReturn, TypeVar

from . import syscalls
from .programs import ProgramFailed

Argument = TypeVar("Argument")
Result = TypeVar("Result")

_READ_BYTES: Final = 1 << 20


class CallFailed(Exception):
    """A call that raised an error, took too long, or whose result is too large. The text is one line."""


def _nothing() -> None: ...


async def call_forked(
    function: Callable[[Argument], Result],
    argument: Argument,
    *,
    prepare: Callable[[], None] = _nothing,
    seconds: float,
    most_bytes: int,
) -> Result:
    """Call `prepare` and then the function in a forked process, and return the result, which is pickled.

    The process is killed after `seconds`, when the caller is cancelled, and when this process ends.
    `most_bytes`: of the pickled result. Raises CallFailed.
    """
    reading, writing = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(reading, False)
    # Signals wait until the child has its own handlers.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    parent = os.getpid()
    try:
        try:
            pid = os.fork()
        except OSError:
            os.close(reading)
            raise
        if pid == 0:
            _run_child(writing, parent, prepare, function, argument, most_bytes)
    finally:
        os.close(writing)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    try:
        async with asyncio.timeout(seconds):
            data = await _read_to_end(reading, most_bytes)
    except TimeoutError:
        raise CallFailed(f"no result within {seconds:g} s") from None
    finally:
        os.close(reading)
        _end(pid)
    if not data:
        raise CallFailed("the process for it was killed")
    is_success, value = pickle.loads(data)
    if not is_success:
        raise CallFailed(value)
    result: Result = value
    return result


def _end(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)  # at once: the process has ended, or been killed


async def _read_to_end(descriptor: int, most_bytes: int) -> bytes:
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    chunks: list[bytes] = []
    size = 0

    def read() -> None:
        nonlocal size
        try:
            chunk = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            return
        size += len(chunk)
        chunks.append(chunk)
        if not ended.done() and (not chunk or size > most_bytes):
            ended.set_result(None)

    loop.add_reader(descriptor, read)
    try:
        await ended
    finally:
        loop.remove_reader(descriptor)
    if size > most_bytes:
        raise CallFailed(f"the result is larger than {most_bytes} bytes")
    return b"".join(chunks)


def _run_child(
    writing: int,
    parent: int,
    prepare: Callable[[], None],
    function: Callable[[Argument], Result],
    argument: Argument,
    most_bytes: int,
) -> NoReturn:
    try:
        signal.set_wakeup_fd(-1)  # the event loop of the parent reads it
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        gc.disable()  # the objects of the parent are not to be finalized here
        answer = pickle.dumps(_answer(parent, prepare, function, argument), pickle.HIGHEST_PROTOCOL)
        if len(answer) > most_bytes:
            answer = pickle.dumps((False, f"the result is larger than {most_bytes} bytes"))
        rest = memoryview(answer)
        while rest:
            rest = rest[os.write(writing, rest) :]
    except BaseException as error:  # noqa: BLE001 - the process ends, and its caller gets the error
        with contextlib.suppress(OSError):
            os.write(writing, pickle.dumps((False, _describe(error))))
    finally:
        os._exit(0)


def _answer(
    parent: int, prepare: Callable[[], None], function: Callable[[Argument], Result], argument: Argument
) -> tuple[bool, object]:
    """Return whether the function returned, and its result, or one line about its error."""
    try:
        prepare()
        # Here, because a change of user removes it.
        syscalls.set_parent_death_signal(signal.SIGKILL)
        if os.getppid() != parent:
            return False, "the caller has ended"
        return True, function(argument)
    except BaseException as error:  # noqa: BLE001 - the caller gets it
        return False, _describe(error)


def _describe(error: BaseException) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    name = error.filename if isinstance(error, OSError) and error.filename else ""
    known = isinstance(error, OSError | ValueError | ProgramFailed)
    return " ".join(": ".join(filter(None, ("" if known and text else type(error).__name__, str(name), text))).split())
