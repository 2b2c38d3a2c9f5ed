"""Programs of this machine that print what the kernel has, with bounds of time and output.

Their standard streams are files in memory: nothing has to read while they run, so that several can run at once. For
processes with one thread.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from . import syscalls

_NOT_FOUND: Final = 127  # exit codes as a shell has them
_NOT_EXECUTABLE: Final = 126
_SIGNALLED: Final = 128


class ProgramFailed(Exception):
    """A program that did not end in time, or printed too much. The text is one line."""


class ProgramResult(NamedTuple):
    """The result of a program. `code`: its exit code, with a shell's meaning (127: no such program)."""

    code: int
    stdout: bytes
    stderr: bytes


class Program(NamedTuple):
    """A program to run. `most_bytes`: of each output, and of each file that it writes.

    `prepare` is called in the program's process, before it is executed. It may raise OSError.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    most_bytes: int
    seconds: float
    stdin: bytes = b""
    prepare: Callable[[], None] | None = None


class RunningProgram:
    """A program that runs from the beginning, and ends with this process. To be waited for once."""

    def __init__(self, program: Program) -> None:
        """Raises ProgramFailed when `prepare` fails."""
        self._program = program
        self._files = [os.memfd_create(name, os.MFD_CLOEXEC) for name in ("stdin", "stdout", "stderr")]
        self._process: subprocess.Popen[bytes] | None = None
        self._failure = ProgramResult(0, b"", b"")
        stdin, stdout, stderr = self._files
        try:
            with open(stdin, "wb", closefd=False) as file:
                file.write(program.stdin)
            os.lseek(stdin, 0, os.SEEK_SET)
            self._process = subprocess.Popen(
                list(program.argv),
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                env=dict(program.env),
                preexec_fn=self._prepare,
            )
        except OSError as error:
            code = _NOT_FOUND if error.errno == errno.ENOENT else _NOT_EXECUTABLE
            reason = "command not found" if code == _NOT_FOUND else error.strerror
            self._failure = ProgramResult(code, b"", f"{program.argv[0]}: {reason}\n".encode())
        except subprocess.SubprocessError:
            self._close()
            raise ProgramFailed(f"{program.argv[0]}: its process cannot be prepared") from None

    def _prepare(self) -> None:
        if self._program.prepare is not None:
            self._program.prepare()
        syscalls.set_parent_death_signal(signal.SIGKILL)
        # A program with too much output ends by SIGXFSZ.
        resource.setrlimit(resource.RLIMIT_FSIZE, (self._program.most_bytes, self._program.most_bytes))

    def wait(self) -> ProgramResult:
        """Return the result. Raises ProgramFailed, and kills the program, when it does not end in time."""
        name, seconds, most_bytes = self._program.argv[0], self._program.seconds, self._program.most_bytes
        try:
            if self._process is None:
                return self._failure
            code = self._process.wait(seconds)
            if code == -signal.SIGXFSZ:
                raise ProgramFailed(f"{name} prints more than {most_bytes} bytes")
            _, stdout, stderr = self._files
            return ProgramResult(code if code >= 0 else _SIGNALLED - code, _content(stdout), _content(stderr))
        except subprocess.TimeoutExpired:
            raise ProgramFailed(f"{name} does not end within {seconds:g} s") from None
        finally:
            if self._process is not None:
                self._process.kill()
                self._process.wait()
            self._close()

    def _close(self) -> None:
        for descriptor in self._files:
            os.close(descriptor)


def _content(descriptor: int) -> bytes:
    os.lseek(descriptor, 0, os.SEEK_SET)
    with open(descriptor, "rb", closefd=False) as file:
        return file.read()


def run_program(program: Program) -> ProgramResult:
    """Run a program to its end. Raises ProgramFailed."""
    return RunningProgram(program).wait()
