"""Messages between a speaker and its detector: JSON objects, and beats without content, over a pair of sockets.

Each side sends a beat in each `BEAT_SECONDS`, so that the other side notices when it does not run. The detector's beats
contain whether it is idle, because no address depends on it; beats then follow each other in `IDLE_BEAT_SECONDS`, in
both directions.

A packet is a beat, or a part of a message: the kernel bounds a packet by the socket's buffer (net.core.wmem_max), which
a message with the addresses of some thousand nodes may exceed.
"""

from __future__ import annotations

import contextlib
import json
import socket
from collections import deque
from collections.abc import Iterator

from .engine import Message

BEAT_SECONDS = 0.05
IDLE_BEAT_SECONDS = 1.0
_BEAT, _IDLE_BEAT = b".", b","
_MORE, _LAST = b"+", b"="  # the first byte of a part that others follow, and of a message's last part
_BUFFER_BYTES = 1 << 20
_PART_BYTES = 1 << 16
_PACKETS_AT_ONCE = 100


def open_channel() -> tuple[Channel, Channel]:
    """Return the two ends."""
    first, second = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return Channel(first), Channel(second)


class Channel:
    """One end. Sending never blocks: a beat for a reader that does not read is dropped."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._unsent: deque[bytes] = deque()  # parts of the last message
        self._received = bytearray()  # parts of a message whose last one is missing
        self.is_idle = True  # according to the last beat from the other end
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    @property
    def has_unsent(self) -> bool:
        """Whether a part of the last message waits for the next beat."""
        return bool(self._unsent)

    def beat(self, *, is_idle: bool = False) -> None:
        """Send the rest of the last message, and a beat. An end that is closed or does not read is ignored."""
        with contextlib.suppress(OSError):
            self._flush()
            self._socket.send(_IDLE_BEAT if is_idle else _BEAT)

    def send(self, message: Message) -> bool:
        """Send a message; what the other end has no room for follows with the next beats.

        Return False, and send nothing, as long as there is no room for the rest of the message before.
        """
        try:
            self._flush()
        except OSError:
            return False
        data = json.dumps(message, separators=(",", ":")).encode()
        *others, last = (data[start : start + _PART_BYTES] for start in range(0, len(data), _PART_BYTES))
        self._unsent += [_MORE + part for part in others] + [_LAST + last]
        with contextlib.suppress(OSError):
            self._flush()
        return True

    def _flush(self) -> None:
        while self._unsent:
            self._socket.send(self._unsent[0])
            self._unsent.popleft()

    def receive(self) -> Iterator[Message | None]:
        """Yield what has arrived, None for a beat. Raises EOFError when the other side has ended."""
        for _ in range(_PACKETS_AT_ONCE):
            try:
                packet = self._socket.recv(_PART_BYTES + 1)
            except BlockingIOError:
                return
            except OSError:
                packet = b""
            if not packet:
                raise EOFError
            if packet in (_BEAT, _IDLE_BEAT):
                self.is_idle = packet == _IDLE_BEAT
                yield None
                continue
            self._received += packet[1:]
            if packet.startswith(_LAST):
                message, self._received = self._received, bytearray()
                yield json.loads(message)
