"""HTTP by port-forwarding: the session's channels and the answer."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import Any, cast

import pytest

from bridgehead.client import ApiClient
from bridgehead.client.errors import BadAnswer, ClientError, Unreachable
from bridgehead.client.http_library import aiohttp
from bridgehead.client.port_forward import get_by_port_forward, is_complete, parse_body
from bridgehead.objects.meta import ObjectKey

PORT = (10249).to_bytes(2, "little")
ANSWER = b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello"


class SocketDouble:
    def __init__(self, messages: Iterable[bytes]) -> None:
        self._messages = messages
        self.sent: list[bytes] = []

    async def send_bytes(self, data: bytes) -> None:
        self.sent.append(data)

    async def __aiter__(self) -> AsyncIterator[aiohttp.WSMessage]:
        for data in self._messages:
            yield aiohttp.WSMessage(aiohttp.WSMsgType.BINARY, data, None)


class ClientDouble:
    def __init__(self, *messages: bytes) -> None:
        self.socket = SocketDouble(messages)
        self.opened: list[Any] = []

    @contextlib.asynccontextmanager
    async def open_socket(self, *arguments: Any) -> AsyncIterator[SocketDouble]:
        self.opened.append(arguments)
        yield self.socket


async def get(client: ClientDouble, most_bytes: int = 1000) -> bytes:
    pod = ObjectKey("kube-system", "kube/proxy")
    return await get_by_port_forward(cast(ApiClient, client), pod, 10249, "/metrics", most_bytes)


@pytest.mark.parametrize(
    "messages",
    [
        [b"\0" + PORT, b"\1" + PORT, b"\0" + ANSWER],
        [b"\0" + PORT[:1], b"\0" + PORT[1:] + ANSWER[:10], b"\1" + PORT, b"\5other", b"", b"\0" + ANSWER[10:]],
        [b"\0" + PORT, b"\0HTTP/1.1 200 OK\r\n\r\nhello"],
    ],
)
async def test_the_body_of_an_answer(messages: list[bytes]):
    client = ClientDouble(*messages)
    assert await get(client) == b"hello"
    path, params, _ = client.opened[0]
    assert (path, params) == ("/api/v1/namespaces/kube-system/pods/kube%2Fproxy/portforward", [("ports", "10249")])
    assert client.socket.sent[0].startswith(b"\0GET /metrics HTTP/1.0\r\n")


@pytest.mark.parametrize(
    ("messages", "error", "text"),
    [
        ([b"\0" + PORT, b"\1" + PORT + b"refused"], Unreachable, "refused"),
        ([b"\0" + PORT], BadAnswer, "not HTTP"),
        ([b"\0" + PORT, b"\0" + b"x" * 1001], BadAnswer, "larger than 1000 bytes"),
        ([b"\0" + PORT, b"\0HTTP/1.0 404 Not Found\r\n\r\n"], BadAnswer, "answers 404"),
        ([b"\0" + PORT, b"\0HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"], BadAnswer, "encoding"),
    ],
)
async def test_errors(messages: list[bytes], error: type[ClientError], text: str):
    with pytest.raises(error, match=text):
        await get(ClientDouble(*messages))


def test_an_answer_is_complete_with_its_content_length():
    assert is_complete(ANSWER)
    assert not is_complete(ANSWER[:-1])
    assert not is_complete(ANSWER[:20])
    assert not is_complete(b"HTTP/1.0 200 OK\r\n\r\nhello")
    assert parse_body(ANSWER) == b"hello"
