"""A watch of etcd: one stream of events from one member."""

from __future__ import annotations

import contextlib
from typing import Any

from . import messages_pb2 as pb
from .answers import event
from .connection import Connection, Metadata
from .errors import Compacted, EtcdError, Refused, Unavailable
from .failures import CallFailed, error_of
from .records import Event, WatchBatch

# A member that is cut off from the others ends the stream ("no leader") instead of being silent.
REQUIRE_LEADER: Metadata = (("hasleader", "true"),)


class EtcdWatch:
    """Batches of events, in the order of their revisions, without a gap. Owners call `close`.

        async for batch in watch: ...

    The iteration ends with `Compacted`, or with another `EtcdError` (`Unavailable` when the connection ends); the
    caller goes on with a new watch after the last revision that it received. One task may iterate. A task that is
    cancelled while it waits for a batch ends the watch.
    """

    def __init__(self, connection: Connection, call: Any) -> None:
        self.revision = 0  # of the store when etcd created the watch
        self._connection = connection
        self._call = call
        self._incomplete: list[Event] = []  # the events of a revision that etcd has not sent whole
        self._is_closed = False
        self._life = contextlib.ExitStack()

    @property
    def endpoint(self) -> str:
        return self._connection.url

    async def create(self, request: pb.WatchCreateRequest) -> None:
        """Ask for the events, and wait until etcd has created the watch. Raises `CallFailed`."""
        self._life.enter_context(self._connection.watched())
        try:
            await self._write(pb.WatchRequest(create_request=request))
            message = await self._read()
            if message.canceled:
                raise CallFailed(message.cancel_reason, self._cancellation(message))
        except BaseException:
            await self.close()
            raise
        self.revision = message.header.revision

    def __aiter__(self) -> EtcdWatch:
        return self

    async def __anext__(self) -> WatchBatch:
        while not self._is_closed:
            try:
                message = await self._read()
            except CallFailed as failure:
                if self._is_closed:
                    break
                await self.close()
                raise failure.error from None
            if message.canceled or message.compact_revision:
                await self.close()
                raise self._cancellation(message)
            if (batch := self._batch(message)) is not None:
                return batch
        raise StopAsyncIteration

    async def _read(self) -> pb.WatchResponse:
        message = await self._connection.answer(self._call.read())
        if not isinstance(message, pb.WatchResponse):  # gRPC's mark of the end of a stream
            text = "the member ended the watch"
            raise CallFailed(text, Unavailable(f"etcd at {self.endpoint}: {text}"))
        return message

    def _batch(self, message: pb.WatchResponse) -> WatchBatch | None:
        """Return the events whose revisions are complete, None if there are none."""
        if message.created:
            return None
        events = self._incomplete + [event(each) for each in message.events]
        self._incomplete = []
        if message.fragment:
            last = events[-1].kv.mod_revision if events else 0
            self._incomplete = [each for each in events if each.kv.mod_revision == last]
            events = events[: len(events) - len(self._incomplete)]
            if not events:
                return None
        return WatchBatch(message.header.revision, events, is_progress=not events)

    def _cancellation(self, message: pb.WatchResponse) -> EtcdError:
        if message.compact_revision:
            return Compacted(
                f"etcd at {self.endpoint}: the start of the watch has been compacted; read the newest state instead",
                message.compact_revision,
            )
        if message.cancel_reason:
            return error_of("UNKNOWN", message.cancel_reason, self.endpoint)
        return Refused(f"etcd at {self.endpoint} cancelled the watch without a reason")

    async def request_progress(self) -> None:
        """Ask for a batch with `is_progress` soon. Raises `EtcdError`."""
        try:
            await self._write(pb.WatchRequest(progress_request=pb.WatchProgressRequest()))
        except CallFailed as failure:
            raise failure.error from None

    async def _write(self, request: pb.WatchRequest) -> None:
        await self._connection.answer(self._call.write(request))

    async def close(self) -> None:
        """End the watch; an iteration that waits ends without an error."""
        if not self._is_closed:
            self._is_closed = True
            self._life.close()
            self._call.cancel()
