"""Programs in the containers of pods, by the subresource `exec` over a WebSocket.

Each message begins with the number of its channel. Source: Kubernetes `apimachinery/pkg/util/httpstream/wsstream`,
KEP-4006 (v5.channel.k8s.io).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple
from urllib.parse import quote

import msgspec

from bridgehead.objects.kinds import PODS
from bridgehead.objects.meta import ObjectKey

from .api import ApiClient
from .errors import BadAnswer, Unreachable, error_from_status
from .http_library import aiohttp

V5: Final = "v5.channel.k8s.io"
V4: Final = "v4.channel.k8s.io"

_STDIN, _STDOUT, _STDERR, _ERROR, _CLOSE = 0, 1, 2, 3, 255
_CHUNK: Final = 1 << 15  # bytes of standard input in one message
_INTERNAL_ERROR: Final = 500


class ExecResult(NamedTuple):
    """The result of a program that was started: its exit code and its output."""

    code: int
    stdout: bytes
    stderr: bytes


class _Cause(msgspec.Struct):
    reason: str = ""
    message: str = ""


class _Details(msgspec.Struct):
    causes: list[_Cause] = []


class _Status(msgspec.Struct):
    """The `Status` of the API that ends a session."""

    status: str = ""
    reason: str = ""
    message: str = ""
    code: int = 0
    details: _Details | None = None


async def exec_in_pod(
    client: ApiClient,
    pod: ObjectKey,
    container: str,
    argv: Sequence[str],
    *,
    stdin: bytes = b"",
    seconds: float,
    most_bytes: int,
) -> ExecResult:
    """Run a program in a container and return its result; `most_bytes` bounds each output.

    Raises the errors of `errors.py`: ApiError also when the container does not run or has no such program, Unreachable
    when the program does not end in time, BadAnswer when it prints too much.
    """
    params = [("container", container), ("stdout", "true"), ("stderr", "true")]
    if stdin:
        params.append(("stdin", "true"))
    params += [("command", word) for word in argv]
    path = PODS.path(quote(pod.namespace, safe=""), quote(pod.name, safe=""), "exec")
    is_open = False
    try:
        async with asyncio.timeout(seconds), client.open_socket(path, params, (V5, V4)) as socket:
            is_open = True
            return await _run(socket, stdin, most_bytes)
    except TimeoutError:
        if not is_open:
            raise Unreachable(f"the container is not reached within {seconds:g} s") from None
        raise Unreachable(f"{argv[0]} does not end within {seconds:g} s") from None


async def _run(socket: aiohttp.ClientWebSocketResponse, stdin: bytes, most_bytes: int) -> ExecResult:
    if stdin and socket.protocol != V5:
        raise BadAnswer("the API server has no WebSocket protocol in which standard input can end")
    sending = asyncio.ensure_future(_send(socket, stdin)) if stdin else None
    try:
        return await _receive(socket, most_bytes)
    finally:
        if sending is not None:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)


async def _send(socket: aiohttp.ClientWebSocketResponse, stdin: bytes) -> None:
    for offset in range(0, len(stdin), _CHUNK):
        await socket.send_bytes(bytes((_STDIN,)) + stdin[offset : offset + _CHUNK])
    await socket.send_bytes(bytes((_CLOSE, _STDIN)))


async def _receive(socket: aiohttp.ClientWebSocketResponse, most_bytes: int) -> ExecResult:
    outputs = {_STDOUT: bytearray(), _STDERR: bytearray()}
    async for message in socket:
        data = message.data
        if message.type is not aiohttp.WSMsgType.BINARY or not data:
            continue
        if data[0] == _ERROR:
            return ExecResult(parse_exit_code(data[1:]), bytes(outputs[_STDOUT]), bytes(outputs[_STDERR]))
        output = outputs.get(data[0])
        if output is not None:
            if len(output) + len(data) > most_bytes:
                raise BadAnswer(f"the program prints more than {most_bytes} bytes")
            output += memoryview(data)[1:]
    raise Unreachable("the connection to the container ended before the program")


def parse_exit_code(document: bytes) -> int:
    """Return the exit code in the `Status` that ends a session. Raises ApiError if the program was not started."""
    try:
        status = msgspec.json.decode(document, type=_Status)
    except msgspec.MsgspecError as error:
        raise BadAnswer(f"exec: not a Status: {error}") from None
    if status.status == "Success":
        return 0
    for cause in status.details.causes if status.details else ():
        if cause.reason == "ExitCode" and cause.message.isascii() and cause.message.isdigit():
            return int(cause.message[:3])
    found = {"kind": "Status", "code": status.code, "reason": status.reason, "message": status.message}
    raise error_from_status(status.code or _INTERNAL_ERROR, found)
