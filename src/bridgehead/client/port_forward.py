"""HTTP to a port of a pod by port-forwarding, for servers that listen on 127.0.0.1 only.

A session has one connection: it has channel 0 for data and channel 1 for an error, and each begins with the port in two
bytes. Source: kubelet `pkg/cri/streaming/portforward/websocket.go`.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from bridgehead.objects.kinds import PODS
from bridgehead.objects.meta import ObjectKey

from .api import ApiClient
from .errors import BadAnswer, Unreachable
from .http_library import aiohttp

_PROTOCOL: Final = "v4.channel.k8s.io"
_DATA, _ERROR = 0, 1
_PORT_BYTES: Final = 2


async def get_by_port_forward(client: ApiClient, pod: ObjectKey, port: int, path: str, most_bytes: int) -> bytes:
    """Return the body of a page that a pod serves on `port` of its loopback. The caller bounds the time.

    Raises ApiError for the session and for an answer other than 200, Unreachable if nothing listens there, BadAnswer
    for what is no answer, or larger than `most_bytes`.
    """
    # HTTP/1.0: the server ends the connection after its answer, which is not chunked.
    request = f"GET {path} HTTP/1.0\r\nHost: localhost:{port}\r\nAccept: text/plain\r\n\r\n".encode()
    session = PODS.path(quote(pod.namespace, safe=""), quote(pod.name, safe=""), "portforward")
    async with client.open_socket(session, [("ports", str(port))], (_PROTOCOL,)) as socket:
        await socket.send_bytes(bytes((_DATA,)) + request)
        answer = await _receive(socket, most_bytes)
    return parse_body(answer)


async def _receive(socket: aiohttp.ClientWebSocketResponse, most_bytes: int) -> bytes:
    """Return all data of channel 0 until the session ends."""
    found, skip = bytearray(), {_DATA: _PORT_BYTES, _ERROR: _PORT_BYTES}
    async for message in socket:
        data = message.data
        if message.type is not aiohttp.WSMsgType.BINARY or not data or data[0] not in skip:
            continue
        content = data[1 + skip[data[0]] :]
        skip[data[0]] = max(0, skip[data[0]] - (len(data) - 1))
        if data[0] == _ERROR and content:
            raise Unreachable(content.decode(errors="replace"))
        if len(found) + len(content) > most_bytes:
            raise BadAnswer(f"the answer is larger than {most_bytes} bytes")
        found += content
        if is_complete(found):
            break
    return bytes(found)


def is_complete(answer: bytes | bytearray) -> bool:
    """Return whether an answer with Content-Length has arrived wholly: some sessions end late."""
    head, blank, _ = bytes(answer[:8192]).partition(b"\r\n\r\n")
    if not blank:
        return False
    length = _header(head, b"content-length")
    return length.isdigit() and len(answer) - len(head) - len(blank) >= int(length[:18])


def parse_body(answer: bytes) -> bytes:
    """Return the body of an HTTP/1 answer with code 200. Raises BadAnswer for anything else."""
    head, blank, body = answer.partition(b"\r\n\r\n")
    version, _, rest = head.split(b"\r\n", 1)[0].partition(b" ")
    code = rest[:3]
    if not blank or not version.startswith(b"HTTP/1.") or not code.isdigit():
        raise BadAnswer("the pod's answer is not HTTP")
    if code != b"200":
        raise BadAnswer(f"the pod answers {code.decode()}")
    if _header(head, b"transfer-encoding"):
        raise BadAnswer("the pod's answer has an encoding for HTTP/1.1")
    return body


def _header(head: bytes, name: bytes) -> bytes:
    for line in head.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == name:
            return value.strip()
    return b""
