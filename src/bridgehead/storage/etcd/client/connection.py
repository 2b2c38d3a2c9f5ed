"""One connection to one member of etcd: a gRPC channel, and the calls of etcd's API on it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from . import messages_pb2 as pb
from .answers import status
from .failures import CallFailed, error_of
from .quiet_grpc import grpc
from .records import Status
from .settings import Endpoint
from .tls import TlsFiles

Metadata = tuple[tuple[str, str], ...]

MAX_ANSWER_BYTES = 64 * 2**20

# etcd ends a connection with "too_many_pings" whose pings are less than 5 s apart (--grpc-keepalive-min-time), so the
# pings are a little slower. Data that is not acknowledged for KEEPALIVE_TIMEOUT ends the connection in any case, as
# gRPC sets TCP_USER_TIMEOUT to it.
KEEPALIVE_SECONDS = 5.5
KEEPALIVE_TIMEOUT = 2.0

_OPTIONS: list[tuple[str, Any]] = [
    ("grpc.max_receive_message_length", MAX_ANSWER_BYTES),
    ("grpc.max_send_message_length", -1),  # etcd's bound is the operator's (--max-request-bytes)
    ("grpc.keepalive_time_ms", int(KEEPALIVE_SECONDS * 1000)),
    ("grpc.keepalive_timeout_ms", int(KEEPALIVE_TIMEOUT * 1000)),
    ("grpc.http2.ping_timeout_ms", int(KEEPALIVE_TIMEOUT * 1000)),  # a minute otherwise, also for pings of keepalive
    ("grpc.http2.max_pings_without_data", 0),  # a watch may be silent for hours
    ("grpc.enable_retries", 0),  # this client knows which calls may be repeated
    ("grpc.enable_http_proxy", 0),
    ("grpc.service_config_disable_resolution", 1),  # no queries for TXT records
    ("grpc.use_local_subchannel_pool", 1),  # a new connection does not wait for an old one's back-off
]


class Call(Protocol):
    """A unary call of a channel."""

    def __call__(self, request: Any, *, timeout: float | None, metadata: Metadata) -> Awaitable[Any]: ...


@dataclass(slots=True, eq=False)
class Pending:
    """A call without an answer yet, since `began`. `term` is the last one that was known when it was sent."""

    call: Any
    began: float
    term: int
    given_up: str = ""  # why


class Connection:
    """A gRPC channel to one member. It is not used again once it has failed.

    `supervise` runs while the connection is open, and looks at what is public here.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        tls: TlsFiles,
        supervise: Callable[[Connection], Coroutine[None, None, None]] | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.last_answer = time.monotonic()
        self.watches = 0
        self._pending: dict[Pending, None] = {}  # in the order of their beginning
        self._term = 0  # the last term of an election that the member has shown
        self._is_closed = False
        self._why_closed = ""
        self._supervision = None if supervise is None else asyncio.create_task(supervise(self))
        self._channel = (
            grpc.aio.secure_channel(endpoint.target, tls.credentials(), _OPTIONS)
            if endpoint.is_tls
            else grpc.aio.insecure_channel(endpoint.target, _OPTIONS)
        )
        self.range = self._unary("KV/Range", pb.RangeRequest, pb.RangeResponse)
        self.txn = self._unary("KV/Txn", pb.TxnRequest, pb.TxnResponse)
        self.compact = self._unary("KV/Compact", pb.CompactionRequest, pb.CompactionResponse)
        self.lease_grant = self._unary("Lease/LeaseGrant", pb.LeaseGrantRequest, pb.LeaseGrantResponse)
        self.lease_revoke = self._unary("Lease/LeaseRevoke", pb.LeaseRevokeRequest, pb.LeaseRevokeResponse)
        self.alarm = self._unary("Maintenance/Alarm", pb.AlarmRequest, pb.AlarmResponse)
        self.authenticate = self._unary("Auth/Authenticate", pb.AuthenticateRequest, pb.AuthenticateResponse)
        self._status = self._unary("Maintenance/Status", pb.StatusRequest, pb.StatusResponse)
        self.lease_keep_alive = self._stream(
            "Lease/LeaseKeepAlive", pb.LeaseKeepAliveRequest, pb.LeaseKeepAliveResponse
        )
        self.watch = self._stream("Watch/Watch", pb.WatchRequest, pb.WatchResponse)

    def _unary(self, path: str, request: Any, answer: Any) -> Call:
        call: Call = self._channel.unary_unary(
            f"/etcdserverpb.{path}",
            request_serializer=request.SerializeToString,
            response_deserializer=answer.FromString,
        )
        return call

    def _stream(self, path: str, request: Any, answer: Any) -> Callable[..., Any]:
        stream: Callable[..., Any] = self._channel.stream_stream(
            f"/etcdserverpb.{path}",
            request_serializer=request.SerializeToString,
            response_deserializer=answer.FromString,
        )
        return stream

    @property
    def url(self) -> str:
        return self.endpoint.url

    def is_ready(self) -> bool:
        return not self._is_closed and self._channel.get_state() is grpc.ChannelConnectivity.READY

    async def status(self, timeout: float, metadata: Metadata = ()) -> Status:
        """Return the member's status, by a new connection if there is none. Raises `CallFailed`."""
        self._check_open()
        answer = status(
            await self.answer(self._status(pb.StatusRequest(), timeout=timeout, metadata=metadata)), self.url
        )
        self._term = max(self._term, answer.raft_term)
        return answer

    async def unary(self, call: Call, request: Any, timeout: float, metadata: Metadata = ()) -> Any:
        """Return the answer of one of this connection's calls. Raises `CallFailed`."""
        self._check_open()
        pending = Pending(call(request, timeout=timeout, metadata=metadata), time.monotonic(), self._term)
        self._pending[pending] = None
        try:
            answer = await self.answer(pending.call)
        except CallFailed:
            if pending.given_up:
                raise self._failure("UNAVAILABLE", pending.given_up) from None
            raise
        finally:
            del self._pending[pending]
        self._term = max(self._term, answer.header.raft_term)
        return answer

    @property
    def oldest(self) -> Pending | None:
        """The call that has waited longest for its answer, None if none waits."""
        return next(iter(self._pending), None)

    def give_up_calls_before(self, term: int, reason: str) -> None:
        """End the calls that were sent in an earlier term. They fail with the reason."""
        for pending in self._pending:
            if pending.term < term:
                pending.given_up = reason
                pending.call.cancel()

    def open_stream(self, stream: Callable[..., Any], timeout: float | None, metadata: Metadata) -> Any:
        """Return a call of one of this connection's streams; `answer` reads and writes it. Raises `CallFailed`."""
        self._check_open()
        return stream(timeout=timeout, metadata=metadata)

    def _check_open(self) -> None:
        if self._is_closed:
            raise self._failure("UNAVAILABLE", f"failed to connect: {self._why_closed}")

    async def answer(self, call: Awaitable[Any]) -> Any:
        """Return the answer of a call or the next message of a stream. Raises `CallFailed`."""
        try:
            answer = await call
        except grpc.aio.AioRpcError as error:
            raise self._failure(error.code().name, error.details() or "") from None
        except asyncio.InvalidStateError:  # a write to a stream that has ended
            raise self._failure("UNAVAILABLE", self._why_closed or "the stream has ended") from None
        except asyncio.CancelledError:
            # gRPC reports in this form also calls that it cancelled itself, when their channel was closed.
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise self._failure("CANCELLED", self._why_closed) from None
        self.last_answer = time.monotonic()
        return answer

    def _failure(self, code: str, details: str) -> CallFailed:
        return CallFailed(details, error_of(code, details, self.url))

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    async def close(self, reason: str = "the connection was closed") -> None:
        """End the connection. Calls that wait for an answer fail for the reason."""
        if self._is_closed:
            return
        self._is_closed, self._why_closed = True, reason
        if self._supervision is not None and self._supervision is not asyncio.current_task():
            self._supervision.cancel()
        await self._channel.close()

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Let the supervision expect signs of life during the block."""
        self.watches += 1
        try:
            yield
        finally:
            self.watches -= 1
