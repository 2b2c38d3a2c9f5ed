"""One connection to one member of etcd: a gRPC channel, and the calls of etcd's API on it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Protocol

from . import messages_pb2 as pb
from .answers import status
from .failures import CallFailed, error_of, is_from_etcd
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

# Signs of life of a member with a watch. A connection that is idle would be found dead after KEEPALIVE_SECONDS and
# KEEPALIVE_TIMEOUT only, a process that is stopped as well. etcd does not count requests as pings.
SILENCE_SECONDS = 1.5
ANSWER_SECONDS = 2.5

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


class Connection:
    """A gRPC channel to one member. It is not used again once it has failed."""

    def __init__(self, endpoint: Endpoint, tls: TlsFiles) -> None:
        self.endpoint = endpoint
        self._last_answer = time.monotonic()
        self._is_closed = False
        self._why_closed = ""
        self._watches = 0
        self._watcher: asyncio.Task[None] | None = None
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
        return status(await self.unary(self._status, pb.StatusRequest(), timeout, metadata), self.url)

    async def unary(self, call: Call, request: Any, timeout: float, metadata: Metadata = ()) -> Any:
        """Return the answer of one of this connection's calls. Raises `CallFailed`."""
        self._check_open()
        return await self.answer(call(request, timeout=timeout, metadata=metadata))

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
        self._last_answer = time.monotonic()
        return answer

    def _failure(self, code: str, details: str) -> CallFailed:
        return CallFailed(details, error_of(code, details, self.url))

    async def close(self, reason: str = "the connection was closed") -> None:
        """End the connection. Calls that wait for an answer fail for the reason."""
        if not self._is_closed:
            self._is_closed, self._why_closed = True, reason
            await self._channel.close()

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Ask the member for signs of life during the block, and close the connection when there are none."""
        self._watches += 1
        if self._watcher is None:
            self._watcher = asyncio.create_task(self._check_life())
        try:
            yield
        finally:
            self._watches -= 1
            if not self._watches and self._watcher is not None:
                self._watcher.cancel()
                self._watcher = None

    async def _check_life(self) -> None:
        while True:
            await asyncio.sleep(max(0.0, self._last_answer + SILENCE_SECONDS - time.monotonic()))
            if time.monotonic() < self._last_answer + SILENCE_SECONDS:
                continue
            try:
                await self.status(ANSWER_SECONDS)
            except CallFailed as failure:
                if not is_from_etcd(failure.details):
                    await self.close("the member does not answer")
                    return
                self._last_answer = time.monotonic()
