"""The audit trail of requests, on a server with an audit policy.

Bodies are kept as they were received and sent; they are decoded in the sink's thread.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Mapping, MutableMapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from bridgehead.apiserver.bodies.protobuf import MAGIC, BadPacket, decode_envelope_untrusted, decode_message_untrusted
from bridgehead.apiserver.bodies.schema import Schema
from bridgehead.apiserver.flowcontrol.apf_controller import is_long_running
from bridgehead.apiserver.http.negotiation import media_type_of
from bridgehead.apiserver.http.request import MAX_BODY, Receive, Response, Scope, Stream
from bridgehead.apiserver.http.request_info import RequestInfo
from bridgehead.apiserver.http.user import User
from bridgehead.apiserver.shapes import StructShape
from bridgehead.media_types import YAML

from .audit_events import Body, Described, Moment, encode_line, event_of, source_ips
from .audit_policy import (
    PANIC,
    REQUEST_RECEIVED,
    RESPONSE_COMPLETE,
    RESPONSE_STARTED,
    AuditPolicy,
    InvalidPolicy,
    Level,
)
from .log_file import AuditSink
from .trail import UNAUDITED, Trail

_DECISION, _REASON = "authorization.k8s.io/decision", "authorization.k8s.io/reason"
_LEFT_EARLY = {"status": "Success", "message": "Connection closed early"}


def read_policy(path: Path) -> AuditPolicy:
    """Read a Policy. Raises OSError, or `InvalidPolicy` with one line that names the file."""
    from bridgehead.yaml_loader import UnusableYaml, load

    try:
        return AuditPolicy(load(path.read_bytes()))
    except UnusableYaml as error:
        raise InvalidPolicy(f"{path}: not YAML: {error}") from error
    except InvalidPolicy as error:
        raise InvalidPolicy(f"{path}: {error}") from error


class Auditor:
    """Begins the trails. `clock` returns seconds since the epoch.

    Events with more than `max_event_bytes` lose their bodies; 0: no limit.
    """

    def __init__(
        self,
        policy: AuditPolicy,
        sink: AuditSink,
        clock: Callable[[], float] = time.time,
        *,
        max_event_bytes: int = 0,
    ) -> None:
        self._policy = policy
        self._sink = sink
        self._max_event_bytes = max_event_bytes
        self._clock = clock
        self._schema: Schema | None = None

    def use_schema(self, schema: Schema) -> None:
        """Set the schema by which bodies in protobuf are decoded."""
        self._schema = schema

    def close(self) -> None:
        """Write what waits, and close the log."""
        self._sink.close()

    def begin(
        self,
        info: RequestInfo,
        user: User | None,
        scope: Scope,
        headers: Mapping[bytes, bytes],
        audit_id: bytes,
        annotations: Mapping[str, str],
    ) -> Trail:
        auditing = self._policy.evaluate(info, user)
        if auditing.level is Level.NONE:
            return UNAUDITED
        client = scope.get("client") or ("",)
        path, query = scope.get("raw_path") or scope["path"].encode(), scope["query_string"]
        described = Described(
            auditing,
            info,
            user,
            audit_id.decode("latin-1"),
            (path + b"?" + query if query else path).decode("latin-1"),
            source_ips(headers, str(client[0])),
            headers.get(b"user-agent", b"").decode("latin-1"),
            self._clock(),
        )
        content_type = headers.get(b"content-type", b"").decode("latin-1")
        moment = Moment("", described.received, described, annotations=annotations)
        trail = AuditedRequest(moment, content_type, self._put, self._clock)
        if user is not None:
            trail.receive()
        return trail

    def _put(self, moment: Moment) -> None:
        self._sink.put(lambda: encode_line(event_of(moment, self._decode), self._max_event_bytes))

    def _decode(self, content: bytes, content_type: str) -> Any:
        try:
            if content.startswith(MAGIC):
                return self._decode_protobuf(content)
            if media_type_of(content_type) == YAML:
                from bridgehead.yaml_loader import load_object

                return load_object(content)
            return msgspec.json.decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError, BadPacket, ValueError, KeyError, RecursionError):
            return None

    def _decode_protobuf(self, content: bytes) -> Any:
        if self._schema is None:
            return None
        api_version, kind, message = decode_envelope_untrusted(content)
        group, _, version = api_version.rpartition("/")
        shape = self._schema.of_kind(group, version, kind)
        if not isinstance(shape, StructShape):
            return None
        return {"kind": kind, "apiVersion": api_version} | decode_message_untrusted(message, shape)


class AuditedRequest(Trail):
    """The trail of one request. A request of an unknown user has only one event, when its refusal is sent."""

    __slots__ = ("_answer", "_body", "_clock", "_content_type", "_is_over", "_moment", "_put")

    def __init__(
        self, moment: Moment, content_type: str, put: Callable[[Moment], None], clock: Callable[[], float]
    ) -> None:
        self._moment = moment
        self._content_type = content_type
        self._put = put
        self._clock = clock
        self._body = bytearray()
        self._answer: bytearray | None = None
        self._is_over = False

    def receive(self) -> None:
        self._emit(REQUEST_RECEIVED)

    def capture(self, receive: Receive) -> Receive:
        info = self._moment.request.info
        if not info.is_resource or info.verb in ("get", "list", "watch") or info.subresource == "proxy":
            return receive

        async def captured() -> MutableMapping[str, Any]:
            message = await receive()
            if message["type"] == "http.request" and len(self._body) <= MAX_BODY:
                self._body += message.get("body", b"")
            return message

        return captured

    def impersonate(self, user: User) -> None:
        if user is not self._moment.request.user:
            self._moment = replace(self._moment, impersonated=user)

    def authorize(self, *, allowed: bool, reason: str) -> None:
        decision = "allow" if allowed else "forbid"
        self._annotate({_DECISION: decision, _REASON: reason})

    def answer(self, response: Response, annotations: Mapping[str, str]) -> Response:
        self._annotate(annotations)
        described = self._moment.request
        body = Body(response.body, response.content_type)
        shows_objects = described.auditing.level >= Level.REQUEST_RESPONSE and described.info.is_resource
        # An answer that is neither shown nor a refusal need not be decoded.
        is_needed = shows_objects or response.status >= 300 or described.info.verb.startswith("delete")
        if response.stream is not None and shows_objects and response.is_large:
            self._answer = bytearray()
            response = msgspec.structs.replace(response, stream=_Captured(response.stream, self._answer))
        self._moment = replace(self._moment, answer=body if is_needed else None)
        return response

    def panic(self, error: Exception) -> None:
        status = {"status": "Failure", "reason": "InternalError", "message": f"APIServer panic'd: {error}"}
        self._moment = replace(self._moment, code=500, status=status)
        self._emit(PANIC)
        self._is_over = True

    def start(self, status: int) -> None:
        if self._is_over or self._moment.code:
            return  # an upgraded connection has started before its answer is complete
        self._moment = replace(self._moment, code=status)
        info = self._moment.request.info
        if self._moment.request.user is None or info.verb == "watch" or is_long_running(info):
            self._emit(RESPONSE_STARTED)
        if self._moment.request.user is None:
            self._is_over = True

    def complete(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        if not self._moment.code:
            self._moment = replace(self._moment, code=200, status=_LEFT_EARLY)
        if self._answer is not None and self._moment.answer is not None:
            answer = replace(self._moment.answer, content=bytes(self._answer))
            self._moment = replace(self._moment, answer=answer)
        self._emit(RESPONSE_COMPLETE)

    def _annotate(self, annotations: Mapping[str, str]) -> None:
        if annotations:
            self._moment = replace(self._moment, annotations={**self._moment.annotations, **annotations})

    def _emit(self, stage: str) -> None:
        described = self._moment.request
        if stage in described.auditing.omit_stages:
            return
        now = described.received if stage == REQUEST_RECEIVED else self._clock()
        body = Body(bytes(self._body), self._content_type) if self._body else None
        self._put(replace(self._moment, stage=stage, time=now, body=body))


class _Captured:
    """A stream whose pieces are kept, too."""

    def __init__(self, stream: Stream, kept: bytearray) -> None:
        self._stream = stream
        self._kept = kept

    @property
    def held_bytes(self) -> int:
        return self._stream.held_bytes

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        async for piece in self._stream:
            self._kept += piece
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()
