"""Access to nf_tables: applies nft text, lists tables, reads the ruleset's generation.

Small texts go through libnftables inside this process, where it is installed (0.2 ms a transaction; 16 ms by the
command). Big texts and listings go through the `nft` command, so that the hundreds of megabytes they need are freed
when it ends. This module alone interprets nft's error messages.
"""

from __future__ import annotations

import asyncio
import ctypes

from bridgehead.heap import trim_heap
from bridgehead.network.ruleset import Ruleset
from bridgehead.network.uapi.netfilter import NFPROTO_IPV4, NFPROTO_IPV6
from bridgehead.proxy.address_texts import Family
from bridgehead.proxy.commands import describe_failure, find_command, is_temporary, run_command
from bridgehead.proxy.errors import (
    NOT_IN_KERNEL,
    NOT_PERMITTED,
    Busy,
    ModeUnavailable,
    NotFound,
    NotPermitted,
    Refused,
    TooBig,
    without_nf_tables,
)

from .trial import trial

_IN_PROCESS_LIMIT = 128 * 1024  # bytes of text: some 2,500 elements, 20 ms
# libnftables keeps what a text has become until the next one: 0.6 MiB, and more for many chains.
_KEEP_SECONDS = 5.0
_BYTES_OF_AN_ELEMENT = 100  # in a netlink message: 50 for an IPv4 endpoint, near 100 for IPv6 or a comment


class Kernel:
    """The nf_tables of the network namespace this process is in. Raises ModeUnavailable when there are none.

    `families`: both; after `probe`, those that the kernel supports.
    """

    def __init__(self) -> None:
        command = find_command("nft")
        if command is None:
            raise ModeUnavailable("the nft command is not here: install the package nftables")
        self._command = command
        try:
            self._ruleset = Ruleset()
        except OSError as error:
            raise without_nf_tables(error) from error
        self.families: tuple[Family, ...] = (4, 6)
        self._library = _Library.open()
        self._forgetting: asyncio.TimerHandle | None = None
        # This many elements fit into one transaction; more may.
        self.safe_elements = self._ruleset.send_buffer() // _BYTES_OF_AN_ELEMENT

    def close(self) -> None:
        self._ruleset.close()
        if self._forgetting is not None:
            self._forgetting.cancel()
        if self._library is not None:
            self._library.close()

    async def probe(self) -> None:
        """Raise NotPermitted or ModeUnavailable unless this process may change the ruleset; leaves nothing behind.

        The kernel has to know everything that a Service needs. If it lacks that for one family, such as IPv6, the other
        family is served.
        """
        supported: list[Family] = []
        first: ModeUnavailable | NotFound | Refused | None = None
        for family in self.families:
            try:
                await self.apply(trial(family))
            except NotPermitted:
                raise
            except (ModeUnavailable, NotFound, Refused) as error:
                first = first or error
            else:
                supported.append(family)
        if not supported:
            if isinstance(first, ModeUnavailable):
                raise first
            raise ModeUnavailable(f"this kernel's nftables lacks what the proxy needs: {first}")
        self.families = tuple(supported)

    def generation(self) -> int:
        """Return a number that every transaction in this network namespace increases by one."""
        return self._ruleset.generation()

    def has_table(self, family: str, name: str) -> bool:
        """Return whether the table exists.

        libnftables reads the whole ruleset into its memory to explain that a table is missing. A command costs more.
        """
        try:
            return name in self._ruleset.table_names(NFPROTO_IPV6 if family == "ip6" else NFPROTO_IPV4)
        except OSError:  # libnftables and the command report what is wrong
            return True

    async def apply(self, text: str) -> None:
        """Apply the whole text or nothing. Raises TooBig, Busy, NotFound, NotPermitted or Refused."""
        if self._library is not None and len(text) <= _IN_PROCESS_LIMIT:
            error = self._library.run(text)
            if self._forgetting is None:
                self._forgetting = asyncio.get_running_loop().call_later(_KEEP_SECONDS, self._forget, self._library)
            await asyncio.sleep(0)  # other tasks run between the parts of a big change
        else:
            status, _, stderr = await run_command(self._command, "-f", "-", text=text)
            error = describe_failure("nft", status, stderr) if status else ""
        if error:
            raise _as_exception(error)

    def _forget(self, library: _Library) -> None:
        self._forgetting = None
        library.run("")
        trim_heap()

    async def check(self, text: str) -> None:
        """Ask the kernel whether it would apply the whole text. Raises what `apply` would raise; changes nothing."""
        status, _, error = await run_command(self._command, "--check", "-f", "-", text=text)
        if status:
            raise _as_exception(describe_failure("nft", status, error))

    async def list_table(self, family: str, name: str) -> bytes | None:
        """Return the table as nft's JSON with all its elements. None: it does not exist."""
        if not self.has_table(family, name):
            return None
        return await self._list("--json", "list", "table", family, name)

    async def list_with_handles(self, family: str, name: str) -> bytes | None:
        """Return the table as nft's JSON with the handles of its rules. None: it does not exist."""
        if not self.has_table(family, name):
            return None
        return await self._list("--json", "--handle", "list", "table", family, name)

    async def list_structure(self, family: str, name: str) -> bytes | None:
        """Return the table as text, without elements. None: it does not exist.

        The cost does not depend on the number of elements: nft 1.0.6 fetches them when one table is listed, even with
        --terse, but not when the ruleset is.
        """
        ruleset = await self._list("--terse", "--stateless", "list", "ruleset", family)
        begin = f"table {family} {name} {{".encode()
        for table in (ruleset or b"").split(b"\n}\n"):
            at = 0 if table.startswith(begin) else table.find(b"\n" + begin)
            if at >= 0:
                return table[at:].lstrip()
        return None

    async def _list(self, *arguments: str) -> bytes | None:
        status, output, error = await run_command(self._command, *arguments)
        if status == 0:
            return output
        exception = _as_exception(describe_failure("nft", status, error))
        if isinstance(exception, NotFound):
            return None
        raise exception


def _as_exception(error: str) -> Exception:
    """Return the exception for an error message of nft."""
    lines = [line.strip() for line in error.splitlines() if "Error:" in line]
    first = lines[0] if lines else error.strip()[:500]
    if "Message too long" in error or "No buffer space" in error:
        return TooBig(first)
    if is_temporary(error):
        return Busy(first)
    if "No such file or directory" in error:
        return NotFound(first)
    if "Operation not permitted" in error:
        return NotPermitted(NOT_PERMITTED)
    if "Protocol not supported" in error or "cache initialization failed" in error:
        return ModeUnavailable(NOT_IN_KERNEL)
    return Refused(first)


class _Library:
    """libnftables by ctypes, since its Python binding is not on PyPI. These six functions are its stable interface."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        library.nft_ctx_new.restype = ctypes.c_void_p
        library.nft_ctx_new.argtypes = [ctypes.c_uint32]
        library.nft_ctx_free.argtypes = [ctypes.c_void_p]
        library.nft_run_cmd_from_buffer.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
        for function in (library.nft_ctx_buffer_error, library.nft_ctx_buffer_output):
            function.argtypes = [ctypes.c_void_p]
        library.nft_ctx_get_error_buffer.argtypes = [ctypes.c_void_p]
        library.nft_ctx_get_error_buffer.restype = ctypes.c_char_p
        self._context = library.nft_ctx_new(0)
        library.nft_ctx_buffer_error(self._context)
        library.nft_ctx_buffer_output(self._context)

    @classmethod
    def open(cls) -> _Library | None:
        try:
            return cls(ctypes.CDLL("libnftables.so.1"))
        except OSError:
            return None

    def run(self, text: str) -> str:
        """Apply the text. Return the error message, "" if there was no error."""
        status = self._library.nft_run_cmd_from_buffer(self._context, text.encode())
        error = bytes(self._library.nft_ctx_get_error_buffer(self._context) or b"").decode(errors="replace")
        return (error or "libnftables failed without a message") if status else ""

    def close(self) -> None:
        if self._context:
            self._library.nft_ctx_free(self._context)
            self._context = None
