"""The runs of a credential plugin. Used by `credentials`.

Credentials are kept until they expire or the server refuses them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import ssl
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE

from bridgehead.tls_certificates import load_certificate

from .errors import CredentialsFailed
from .exec_plugin import ALWAYS, NEVER, ExecPlugin, PluginAnswer, parse_answer

log = logging.getLogger(__name__)

RUN_SECONDS = 60.0
INTERACTIVE_SECONDS = 600.0  # a person may have to log in
MAX_OUTPUT_BYTES = 2**20
# All requests that wait for a run which fails get its error, and later ones for this long.
FAILURE_SECONDS = 1.0


class PluginProcess:
    """Runs one plugin, once for all requests that wait for it."""

    def __init__(self, plugin: ExecPlugin) -> None:
        self._plugin = plugin
        self._lock = asyncio.Lock()
        self._answer: PluginAnswer | None = None
        self._failure = ""  # of the latest run
        self._failed_at = float("-inf")

    async def get(self) -> PluginAnswer:
        """Return valid credentials, from the latest run if they have not expired. Raises CredentialsFailed."""
        if self._answer is not None and not _has_expired(self._answer):
            return self._answer
        async with self._lock:
            if self._answer is None or _has_expired(self._answer):
                self._answer = await self._attempt()
            return self._answer

    async def renew(self, refused: PluginAnswer) -> PluginAnswer:
        """Return other credentials than those that the server has refused. Raises CredentialsFailed."""
        if self._answer is refused:
            self._answer = None
        return await self.get()

    async def _attempt(self) -> PluginAnswer:
        if self._failure and time.monotonic() - self._failed_at < FAILURE_SECONDS:
            raise CredentialsFailed(self._failure)
        try:
            answer = parse_answer(self._plugin, await self._run())
            _check_certificate(answer)
        except (OSError, ValueError, TimeoutError) as error:
            self._failure = self._describe(error)
            self._failed_at = time.monotonic()
            raise CredentialsFailed(self._failure) from error
        self._failure = ""
        return answer

    def _describe(self, error: Exception) -> str:
        why = str(error)
        if isinstance(error, FileNotFoundError):
            why = f"not found. {self._plugin.hint}".strip()
        return f"credential plugin {self._plugin.command!r}: {why}"

    async def _run(self) -> bytes:
        """Return the output of one run. Raises OSError, TimeoutError, ValueError."""
        plugin = self._plugin
        has_terminal = sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
        is_interactive = plugin.mode != NEVER and has_terminal
        if plugin.mode == ALWAYS and not has_terminal:
            raise ValueError("it needs a person (interactiveMode Always), and standard input is not a terminal")
        transport, run = await self._start(is_interactive=is_interactive)
        seconds = INTERACTIVE_SECONDS if is_interactive else RUN_SECONDS
        try:
            async with asyncio.timeout(seconds):
                output = await run.output
        except TimeoutError:
            raise TimeoutError(f"it did not end within {seconds:.0f} s") from None
        finally:
            await run.end(transport, with_children=not is_interactive)
        status = transport.get_returncode()
        if status != 0:
            raise ValueError(f"it failed with exit code {status}; its messages are in the error output of this process")
        return output

    async def _start(self, *, is_interactive: bool) -> tuple[asyncio.SubprocessTransport, _Run]:
        """Start the plugin. Raises OSError, ValueError."""
        plugin = self._plugin
        # Not `create_subprocess_exec`: its `wait` never returns if output is left that nobody reads.
        starting = asyncio.ensure_future(
            asyncio.get_running_loop().subprocess_exec(
                _Run,
                plugin.command,
                *plugin.args,
                stdin=None if is_interactive else DEVNULL,
                stdout=PIPE,
                stderr=None,
                env=os.environ | plugin.variables(is_interactive=is_interactive),
                # A process that reads from the terminal has to stay in the session of the terminal.
                start_new_session=not is_interactive,
            )
        )
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:  # asyncio would end the process without those that it has started
            with contextlib.suppress(OSError, ValueError):
                transport, run = await starting
                await run.end(transport, with_children=not is_interactive)
            raise


class _Run(asyncio.SubprocessProtocol):
    """The output of a process. `output` has it when the process has ended; ValueError: it printed too much."""

    def __init__(self) -> None:
        self.output: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.exited = asyncio.Event()
        self._pieces = bytearray()

    async def end(self, transport: asyncio.SubprocessTransport, *, with_children: bool) -> None:
        """Kill the process if it runs. Close its pipe, also if a process that it has started keeps the pipe open."""
        if transport.get_returncode() is None:
            _kill(transport.get_pid(), with_children=with_children)
            await self.exited.wait()
        transport.close()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if self.output.done():
            return
        self._pieces += data
        if len(self._pieces) > MAX_OUTPUT_BYTES:
            self.output.set_exception(ValueError(f"it printed more than {MAX_OUTPUT_BYTES} bytes"))

    def process_exited(self) -> None:
        self.exited.set()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.output.done():
            self.output.set_result(bytes(self._pieces))


def _check_certificate(answer: PluginAnswer) -> None:
    """Raise ValueError for a certificate that no connection can use: such an answer must not be kept."""
    if answer.certificate is None or answer.key is None:
        return
    try:
        load_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), answer.certificate + b"\n" + answer.key)
    except ssl.SSLError as error:
        raise ValueError(f"its certificate or key is damaged: {error}") from None


def _kill(pid: int, *, with_children: bool) -> None:
    with contextlib.suppress(ProcessLookupError):
        if with_children:
            os.killpg(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGKILL)


def _has_expired(answer: PluginAnswer) -> bool:
    return answer.expires is not None and time.time() >= answer.expires
