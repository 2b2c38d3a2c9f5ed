"""The tests' side of the program inside a lab (see `inside`)."""

from __future__ import annotations

import contextlib
import errno
import socket
import subprocess
import threading
from pathlib import Path
from typing import Any

import msgspec

from .inside import LARGEST, Answer, Request
from .programs import command_line


class LabNetworkError(Exception):
    """The lab's network cannot be used or changed. The text is the reason, in one line."""


class Inside:
    """The program on a node, or beside the nodes. `close` it. Requests may come from several threads."""

    def __init__(self, state_directory: Path, node: str | None) -> None:
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            other.set_inheritable(True)
            argv = command_line(
                "bridgehead.testing.inside", other.fileno(), state_directory, *([node] if node is not None else [])
            )
            self._process = subprocess.Popen(
                argv,
                pass_fds=(other.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
        self._lock = threading.Lock()

    def ask(self, request: Request) -> Any:
        """Return the result. Raises OSError of the lab's kernel, and `LabNetworkError`."""
        result, opened = self._ask(request)
        if opened is not None:
            opened.close()
        return result

    def connect(self, request: Request) -> socket.socket:
        """Return the connected socket. Raises as `ask`."""
        _, opened = self._ask(request)
        assert opened is not None  # noqa: S101 - the answer to this request has one
        return opened

    def _ask(self, request: Request) -> tuple[Any, socket.socket | None]:
        with self._lock:
            packet = b""
            descriptors: list[int] = []
            with contextlib.suppress(ConnectionError):  # the program has ended
                self._socket.send(msgspec.json.encode(request))
                packet, descriptors, *_ = socket.recv_fds(self._socket, LARGEST, 1)
        if not packet:
            raise LabNetworkError(f"the program inside the lab has ended: {self._last_line()}")
        opened = socket.socket(fileno=descriptors[0]) if descriptors else None
        answer = msgspec.json.decode(packet, type=Answer)
        if not answer.error:
            return answer.result, opened
        if answer.error == "timed out":
            raise TimeoutError(errno.ETIMEDOUT, answer.error)
        raise OSError(answer.errno, answer.error) if answer.errno else LabNetworkError(answer.error)

    def _last_line(self) -> str:
        _, output = self._process.communicate()
        lines = output.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit code {self._process.returncode}"

    def close(self) -> None:
        self._socket.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        self._process.kill()
        self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()
