"""The puller's client of the process that has kept the user's rights (`user_process`)."""

from __future__ import annotations

import os
import socket

from . import user_requests


class UserClient:
    """`process` is a socket of datagrams to the process with the user's rights."""

    def __init__(self, process: socket.socket) -> None:
        self._process = process

    def ask(self, request: user_requests.UserRequest) -> bytes:
        """Block until there is an answer, and return it: b"" when the request fails there, and its log has the reason.

        Raises OSError.
        """
        reading, writing = os.pipe2(os.O_CLOEXEC)
        with open(reading, "rb") as pipe:
            try:
                socket.send_fds(self._process, [user_requests.encode(request)], [writing])
            finally:
                os.close(writing)
            return pipe.read()
