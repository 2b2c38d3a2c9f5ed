"""The first write of an answer has its headers and its body."""

from __future__ import annotations

import asyncio

import pytest

from bridgehead.apiserver.http.joined_writes import JoinedWrites

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Recorder(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def write(self, data: object) -> None:
        assert isinstance(data, bytes)
        self.written.append(data)

    def is_closing(self) -> bool:
        return b"closed" in self.written

    def close(self) -> None:
        self.written.append(b"closed")


@pytest.mark.parametrize(
    ("writes", "written"),
    [
        ([b"HTTP/1.1 200 OK\r\n\r\n", b"body"], [b"HTTP/1.1 200 OK\r\n\r\nbody"]),
        # The empty first piece of a stream shows the client that its watch has begun.
        ([b"head", b"", b"piece", b"", b"end"], [b"head", b"piece", b"", b"end"]),
        ([CONTINUE, b"head", b"body"], [CONTINUE, b"headbody"]),
        # A body may look like headers.
        ([b"head", CONTINUE, CONTINUE], [b"head" + CONTINUE, CONTINUE]),
        ([b"head"], []),
    ],
)
def test_headers_wait_for_the_body(writes: list[bytes], written: list[bytes]) -> None:
    transport = Recorder()
    joined = JoinedWrites(transport)
    for data in writes:
        joined.write(data)
    assert transport.written == written


@pytest.mark.parametrize("writes", [[], [b"head"], [b"head", b"body"]])
def test_a_closed_connection_has_sent_everything(writes: list[bytes]) -> None:
    transport = Recorder()
    joined = JoinedWrites(transport)
    for data in writes:
        joined.write(data)
    assert not joined.is_closing()
    joined.close()
    assert b"".join(transport.written) == b"".join(writes) + b"closed"
    assert joined.is_closing()
