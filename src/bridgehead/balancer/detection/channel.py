"""Messages between a speaker and its detector: JSON objects, and beats without content, over a pair of sockets.

Each side sends a beat in each `BEAT_SECONDS`, so that the other side notices when it does not run.
"""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator

from .engine import Message

BEAT_SECONDS = 0.05
_BEAT = b"."
_BUFFER_BYTES = 1 << 20  # a message with the addresses of some thousand nodes
_RECEIVE_BYTES = 1 << 20
_MESSAGES_AT_ONCE = 100


def open_channel() -> tuple[Channel, Channel]:
    """Return the two ends."""
    first, second = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return Channel(first), Channel(second)


class Channel:
    """One end. Sending never blocks: a beat for a reader that does not read is dropped."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def beat(self) -> None:
        """Send a beat. An end that is closed or does not read is ignored."""
        with contextlib.suppress(OSError):
            self._socket.send(_BEAT)

    def send(self, message: Message) -> bool:
        """Send a message. Return False if the other end is closed, or has not read for long."""
        try:
            self._socket.send(json.dumps(message, separators=(",", ":")).encode())
        except OSError:
            return False
        return True

    def receive(self) -> Iterator[Message | None]:
        """Yield what has arrived, None for a beat. Raises EOFError when the other side has ended."""
        for _ in range(_MESSAGES_AT_ONCE):
            try:
                data = self._socket.recv(_RECEIVE_BYTES)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                raise EOFError
            if data == _BEAT:
                yield None
            else:
                yield json.loads(data)
