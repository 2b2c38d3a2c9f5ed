"""Reads single objects and logs, and runs other commands of this program for their output."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from bridgehead.client import ApiClient
from bridgehead.objects.kinds import EVENTS, NODES, PODS, SERVICES
from bridgehead.objects.meta import ObjectKey

KINDS: Final = {kind.name: kind for kind in (SERVICES, PODS, NODES, EVENTS)}

_LOG_LINES: Final = "1000"  # of a log that are read before it is followed
_LOG_SILENCE_SECONDS: Final = 86_400.0
_COMMAND_SECONDS: Final = 120.0
_MOST_BYTES: Final = 4 << 20  # of the output of a command
# This program, whatever the name and the directory it was started from.
_PROGRAM: Final = (sys.executable, "-P", "-c", "from bridgehead.cli import main; main()")


def _quoted(key: ObjectKey) -> tuple[str, str]:
    """Return namespace and name for a path: a server that is not to be trusted may have sent any."""
    return quote(key.namespace, safe=""), quote(key.name, safe="")


class Inspector:
    """Of one cluster. `options`: those that lead other commands of this program to the same cluster."""

    def __init__(self, client: ApiClient, options: Sequence[str] = ()) -> None:
        self._client = client
        self._options = tuple(options)

    async def read_object(self, kind: str, key: ObjectKey) -> Mapping[str, Any]:
        """Return an object as the API has it. Raises ClientError."""
        return await self._client.request("GET", KINDS[kind].path(*_quoted(key)))

    async def follow_log(
        self, pod: ObjectKey, container: str, *, is_previous: bool = False
    ) -> AsyncGenerator[bytes, None]:
        """Yield a container's log as it grows, in pieces. Raises ClientError."""
        params = {"container": container, "tailLines": _LOG_LINES}
        params |= {"previous": "true"} if is_previous else {"follow": "true"}
        path = PODS.path(*_quoted(pod), "log")
        async with contextlib.aclosing(self._client.stream_raw(path, params, _LOG_SILENCE_SECONDS)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def run(self, arguments: Sequence[str]) -> AsyncGenerator[bytes, None]:
        """Run a command of this program, and yield what it prints. It ends with the iterator. Raises OSError."""
        process = await asyncio.create_subprocess_exec(
            *_PROGRAM,
            *arguments,
            *self._options,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,  # its terminal is ours: it must not read keys, nor get ctrl-c
        )
        size = 0
        try:
            async with asyncio.timeout(_COMMAND_SECONDS):
                while process.stdout is not None and (chunk := await process.stdout.read(1 << 16)):
                    size += len(chunk)
                    if size > _MOST_BYTES:
                        yield b"\n... it prints too much\n"
                        return
                    yield chunk
                await process.wait()
        except TimeoutError:
            yield f"\n... not done within {_COMMAND_SECONDS:g} s\n".encode()
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
