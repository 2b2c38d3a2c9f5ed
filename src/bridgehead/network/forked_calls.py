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
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, NoReturn, TypeVar

from . import syscalls

Argument = TypeVar("Argument")
Result = TypeVar("Result")

_READ_BYTES: Final = 1 << 20
_NOT_FOUND, _NOT_EXECUTABLE, _SIGNALLED = 127, 126, 128  # exit codes as a shell has them


class CallFailed(Exception):
    """A call that raised an error, took too long, or whose result is too large. The text is one line."""


class ProgramResult(NamedTuple):
    """The result of a program. `code`: its exit code, with a shell's meaning (127: no such program)."""

    code: int
    stdout: bytes
    stderr: bytes


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
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
    if not data:
        raise CallFailed("the process for it was killed")
    is_success, value = pickle.loads(data)
    if not is_success:
        raise CallFailed(value)
    result: Result = value
    return result


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
    except BaseException as error:
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
    except BaseException as error:
        return False, _describe(error)


def _describe(error: BaseException) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    name = error.filename if isinstance(error, OSError) and error.filename else ""
    known = isinstance(error, OSError | ValueError | CallFailed)
    return " ".join(": ".join(filter(None, ("" if known and text else type(error).__name__, str(name), text))).split())


class Program(NamedTuple):
    """A program to run: the argument of `run_program`. `prepare` is called in its process, before it is executed."""

    argv: Sequence[str]
    stdin: bytes
    env: Mapping[str, str]
    seconds: float
    most_bytes: int  # of standard output, and of standard error
    prepare: Callable[[], None] = _nothing


def run_program(program: Program) -> ProgramResult:
    """Run a program to its end; meant as a function for `call_forked`. Raises CallFailed, OSError."""
    deadline = time.monotonic() + program.seconds

    def prepare() -> None:
        syscalls.set_parent_death_signal(signal.SIGKILL)
        program.prepare()

    try:
        process = subprocess.Popen(
            list(program.argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(program.env),
            preexec_fn=prepare,
            bufsize=0,
        )
    except FileNotFoundError:
        return ProgramResult(_NOT_FOUND, b"", f"{program.argv[0]}: command not found\n".encode())
    except PermissionError as error:
        return ProgramResult(_NOT_EXECUTABLE, b"", f"{program.argv[0]}: {error.strerror}\n".encode())
    except subprocess.SubprocessError:
        raise CallFailed(f"{program.argv[0]}: cannot enter the namespaces for programs") from None
    try:
        stdout, stderr = _communicate(process, program.stdin, deadline, program.most_bytes)
        code = process.wait(max(deadline - time.monotonic(), 0.001))
    except subprocess.TimeoutExpired:
        raise CallFailed(f"{program.argv[0]} does not end within {program.seconds:g} s") from None
    finally:
        process.kill()
        process.wait()
    return ProgramResult(code if code >= 0 else _SIGNALLED - code, stdout, stderr)


def _communicate(
    process: subprocess.Popen[bytes], stdin: bytes, deadline: float, most_bytes: int
) -> tuple[bytes, bytes]:
    """Write standard input and return both outputs. Raises CallFailed, TimeoutExpired."""
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    found = {process.stdout: bytearray(), process.stderr: bytearray()}
    rest = memoryview(stdin)
    with selectors.DefaultSelector() as selector:
        for stream in found:
            selector.register(stream, selectors.EVENT_READ)
        if rest:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE)
        else:
            process.stdin.close()
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                raise subprocess.TimeoutExpired(process.args, left)
            for key, _ in selector.select(left):
                if key.fileobj is process.stdin:
                    try:
                        rest = rest[os.write(key.fd, rest) :]
                    except BlockingIOError:
                        continue
                    except BrokenPipeError:
                        rest = rest[:0]
                    if not rest:
                        selector.unregister(process.stdin)
                        process.stdin.close()
                    continue
                chunk = os.read(key.fd, _READ_BYTES)
                if not chunk:
                    selector.unregister(key.fileobj)
                    continue
                output = found[key.fileobj]  # type: ignore[index]
                output += chunk
                if len(output) > most_bytes:
                    raise CallFailed(f"{process.args[0]} prints more than {most_bytes} bytes")  # type: ignore[index]
    return bytes(found[process.stdout]), bytes(found[process.stderr])
