"""An API client for informers that records which kinds cannot be read, and whether the server answers at all.

While the server does not answer, one probe looks for it; the informers wait for the probe, so that they resume at once
when the server is back, instead of after the longest delay of their back-off. While it does answer, the probe checks it
seldom: a server that hangs ends no watch.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import TypeVar

from bridgehead.client import ApiClient, ListResult, WatchEvent
from bridgehead.client.errors import ApiError, ClientError, CredentialsFailed, Gone, Unauthorized, Unreachable
from bridgehead.insight.findings import Unseen, printable
from bridgehead.objects.kinds import Kind
from bridgehead.objects.meta import Object

T = TypeVar("T", bound=Object)

PROBE_SECONDS = 1.0  # between two requests while the server does not answer
CHECK_SECONDS = 10.0  # between two requests while it does
_CHECK_TIMEOUT = 5.0
_PROBE_TIMEOUT = 2.0  # shorter, because a server that starts may have taken a connection before it answers


class ObservedClient:
    """The `Source` of informers; run `probe` beside it.

    `on_change` is called when `problem` or `unseen` has changed.
    """

    def __init__(self, client: ApiClient, on_change: Callable[[], None]) -> None:
        self._client = client
        self._on_change = on_change
        self._unseen: dict[str, str] = {}
        self._problem = ""
        self._is_lost = asyncio.Event()
        self._answers = asyncio.Event()
        self._answers.set()

    @property
    def problem(self) -> str:
        """The reason why the server does not answer, or not to this user; "" while it does."""
        return self._problem

    @property
    def unseen(self) -> tuple[Unseen, ...]:
        """The kinds that cannot be read, by their plurals."""
        return tuple(Unseen(what, why) for what, why in sorted(self._unseen.items()))

    def has_failed(self, kind: Kind[T]) -> bool:
        return kind.plural in self._unseen

    async def list(
        self, kind: Kind[T], namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> ListResult[T]:
        await self._answers.wait()
        try:
            result = await self._client.list(kind, namespace, label_selector, field_selector)
        except ClientError as error:
            self._record(kind, error)
            raise
        self._recover(kind)
        return result

    async def watch(
        self,
        kind: Kind[T],
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        bookmarks: bool = False,
        initial: bool = False,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        await self._answers.wait()
        events = self._client.watch(
            kind, namespace, label_selector, field_selector, resource_version, bookmarks, initial
        )
        try:
            async with contextlib.aclosing(events):
                async for event in events:
                    yield event
        except ClientError as error:
            self._record(kind, error)
            raise

    def _record(self, kind: Kind[T], error: ClientError) -> None:
        why = printable(str(error))
        if isinstance(error, Gone):
            return
        if isinstance(error, Unreachable | CredentialsFailed | Unauthorized):
            self._answers.clear()
            self._is_lost.set()
            if self._problem != why and not self._problem:  # the first reason; others follow from it
                self._problem = why
                self._on_change()
        elif self._unseen.get(kind.plural) != why:
            self._unseen[kind.plural] = why
            self._on_change()

    def _recover(self, kind: Kind[T]) -> None:
        if self._unseen.pop(kind.plural, None) is not None:
            self._on_change()

    async def probe(self) -> None:
        """Look for the server while it does not answer; runs until cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS):
                    await self._is_lost.wait()
                    await asyncio.sleep(PROBE_SECONDS / 4)  # most outages are of one connection
            seconds = _PROBE_TIMEOUT if self._is_lost.is_set() else _CHECK_TIMEOUT
            while (problem := await self._why_no_answer(seconds)) != "":
                seconds = _PROBE_TIMEOUT
                self._answers.clear()
                if problem != self._problem:
                    self._problem = problem
                    self._on_change()
                await asyncio.sleep(PROBE_SECONDS)
            self._is_lost.clear()
            self._answers.set()
            if self._problem:
                self._problem = ""
                self._on_change()

    async def _why_no_answer(self, seconds: float) -> str:
        try:
            async with asyncio.timeout(seconds):
                await self._client.request("GET", "/version")
        except TimeoutError:
            return f"no answer within {seconds:g} s"
        except (Unreachable, CredentialsFailed, Unauthorized) as error:
            return printable(str(error))
        except ApiError as error:
            return printable(str(error)) if error.status >= 500 else ""
        except ClientError:
            return ""
        return ""
