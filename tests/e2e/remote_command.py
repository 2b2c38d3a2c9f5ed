"""Commands in pods over a WebSocket of the tests' process: what `kubectl exec` does, without a kubectl for each.

Kubernetes' protocol v5.channel.k8s.io: the first byte of a message is its channel, 255 closes the channel that follows.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import urllib.parse
from collections.abc import Sequence

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.typing import Subprotocol

_PROTOCOL = "v5.channel.k8s.io"
_STDIN, _STDOUT, _STDERR, _STATUS, _CLOSE = 0, 1, 2, 3, 255


def execute(
    server: str, context: ssl.SSLContext, pod: str, argv: Sequence[str], *, stdin: str | None, seconds: float
) -> subprocess.CompletedProcess[str]:
    """Run a command in a pod's only or default container. `server`: host and port; `pod`: its path in the API.

    A refusal of the API server is exit code 1 with its answer as standard error, as is a connection that fails.
    """
    query = [("command", word) for word in argv] + [("stdout", "true"), ("stderr", "true")]
    if stdin is not None:
        query.append(("stdin", "true"))
    url = f"wss://{server}{pod}/exec?{urllib.parse.urlencode(query)}"
    output: dict[int, bytes] = {_STDOUT: b"", _STDERR: b"", _STATUS: b""}

    async def converse() -> None:
        async with connect(
            url,
            ssl=context,
            subprotocols=[Subprotocol(_PROTOCOL)],
            compression=None,
            proxy=None,
            open_timeout=None,  # `seconds` is the bound of all
            max_size=None,
            ping_interval=None,
        ) as connection:
            if stdin is not None:
                await connection.send(bytes([_STDIN]) + stdin.encode())
                await connection.send(bytes([_CLOSE, _STDIN]))
            while not output[_STATUS]:
                message = await connection.recv(decode=False)
                output[message[0]] += message[1:]

    try:
        # The client for threads would read and write one TLS connection at the same time: Python before 3.13 crashes.
        asyncio.run(asyncio.wait_for(converse(), seconds))
    except InvalidStatus as refused:
        return subprocess.CompletedProcess(argv, 1, "", refused.response.body.decode())
    except (ConnectionClosed, InvalidHandshake, ConnectionError, ssl.SSLError) as error:
        return subprocess.CompletedProcess(argv, 1, output[_STDOUT].decode(), f"the connection failed: {error}")
    code = _exit_code(json.loads(output[_STATUS]))
    return subprocess.CompletedProcess(argv, code, output[_STDOUT].decode(), output[_STDERR].decode())


def _exit_code(status: dict[str, object]) -> int:
    """Return the exit code that the Status at the end of a command shows; 1 if the command did not run."""
    if status["status"] == "Success":
        return 0
    details = status.get("details")
    causes = details.get("causes", []) if isinstance(details, dict) else []
    return next((int(cause["message"]) for cause in causes if cause["reason"] == "ExitCode"), 1)
