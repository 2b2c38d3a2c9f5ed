"""The content of audit events (audit.k8s.io/v1 Event).

Pure: no I/O, no clock, no randomness. Called in the thread that writes the log.
Source: apiserver/pkg/audit/request.go, apiserver/pkg/apis/audit/v1/types.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Any

import msgspec

from bridgehead.apiserver.http.request_info import RequestInfo
from bridgehead.apiserver.http.user import User

from .audit_policy import Auditing, Level

_MAX_USER_AGENT = 1024
# Patches of webhooks, which only events with bodies show.
_PATCH = "patch.webhook.admission.k8s.io/"
_LEVELS = {
    Level.NONE: "None",
    Level.METADATA: "Metadata",
    Level.REQUEST: "Request",
    Level.REQUEST_RESPONSE: "RequestResponse",
}

_TRUNCATED = "audit.k8s.io/truncated"

JsonObject = dict[str, Any]
Decode = Callable[[bytes, str], Any]
"""Decodes a body of a media type; None for one that is no object."""


class EventTooLarge(Exception):
    """An event that is too large even without bodies, and is lost."""


@dataclass(frozen=True, slots=True)
class Described:
    """A request as it arrived. `received` is in seconds since the epoch."""

    auditing: Auditing
    info: RequestInfo
    user: User | None
    audit_id: str
    uri: str
    source_ips: tuple[str, ...]
    user_agent: str
    received: float


@dataclass(frozen=True, slots=True)
class Body:
    """A body as it was sent, or as it will be sent without compression."""

    content: bytes
    content_type: str


@dataclass(frozen=True, slots=True)
class Moment:
    """One stage of a request. `time` is in seconds since the epoch.

    `message` is that of the status when there is no body to read it from; `code` is 0 before the answer.
    """

    stage: str
    time: float
    request: Described
    impersonated: User | None = None
    body: Body | None = None
    answer: Body | None = None
    code: int = 0
    status: JsonObject = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


def event_of(moment: Moment, decode: Decode) -> JsonObject:
    """Return the event of a stage."""
    described = moment.request
    auditing, info = described.auditing, described.info
    sent = _read(moment.body, decode) if info.is_resource else None
    event: JsonObject = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": _LEVELS[auditing.level],
        "auditID": described.audit_id,
        "stage": moment.stage,
        "requestURI": described.uri,
        "verb": info.verb,
        "user": _user(described.user),
    }
    if moment.impersonated is not None:
        event["impersonatedUser"] = _user(moment.impersonated)
    if described.source_ips:
        event["sourceIPs"] = list(described.source_ips)
    if described.user_agent:
        event["userAgent"] = _shortened(described.user_agent)
    if info.is_resource:
        event["objectRef"] = _reference(info, sent)
    if moment.code:
        answer = _read(moment.answer, decode)
        event["responseStatus"] = _status(moment, answer)
        if sent is not None and auditing.level >= Level.REQUEST:
            event["requestObject"] = _shown(sent, auditing)
        if answer is not None and info.is_resource and auditing.level >= Level.REQUEST_RESPONSE:
            event["responseObject"] = _shown(answer, auditing)
    event["requestReceivedTimestamp"] = micro_time(described.received)
    event["stageTimestamp"] = micro_time(moment.time)
    with_patches = auditing.level >= Level.REQUEST
    annotations = {k: v for k, v in moment.annotations.items() if with_patches or not k.startswith(_PATCH)}
    if annotations:
        event["annotations"] = annotations
    return event


def source_ips(headers: Mapping[bytes, bytes], client: str) -> tuple[str, ...]:
    """Return the addresses of X-Forwarded-For or X-Real-Ip, and then that of the client."""
    forwarded = headers.get(b"x-forwarded-for", b"").decode("latin-1").split(",")
    found = [address for text in forwarded if (address := _address(text))]
    real = _address(headers.get(b"x-real-ip", b"").decode("latin-1"))
    if real and real not in found:
        found.append(real)
    peer = _address(client)
    if peer and (not found or found[-1] != peer):
        found.append(peer)
    return tuple(found)


def micro_time(seconds: float) -> str:
    """Render a time as Kubernetes' MicroTime."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _address(text: str) -> str:
    try:
        return str(ip_address(text.strip()))
    except ValueError:
        return ""


def _user(user: User | None) -> JsonObject:
    if user is None:
        return {}
    shown: JsonObject = {"username": user.name}
    if user.uid:
        shown["uid"] = user.uid
    if user.groups:
        shown["groups"] = list(user.groups)
    if user.extra:
        shown["extra"] = {key: list(values) for key, values in user.extra.items()}
    return shown


def _shortened(user_agent: str) -> str:
    return user_agent if len(user_agent) <= _MAX_USER_AGENT else f"{user_agent[:_MAX_USER_AGENT]}...TRUNCATED"


def _reference(info: RequestInfo, sent: Any) -> JsonObject:
    """Return the reference to the object, completed by the object that was sent."""
    metadata: Any = {}
    if info.verb in ("create", "update") and isinstance(sent, dict):
        metadata = sent.get("metadata")
    if not isinstance(metadata, dict):
        metadata = {}
    reference = {
        "resource": info.resource,
        "namespace": info.namespace or metadata.get("namespace"),
        "name": info.name or metadata.get("name"),
        "uid": metadata.get("uid"),
        "apiGroup": info.group,
        "apiVersion": info.version,
        "resourceVersion": metadata.get("resourceVersion"),
        "subresource": info.subresource,
    }
    return {key: value for key, value in reference.items() if value and isinstance(value, str)}


def _status(moment: Moment, answer: Any) -> JsonObject:
    """Return the answer's status: that of a Status object, or only the code."""
    status: JsonObject = {"metadata": {}}
    given = answer if isinstance(answer, dict) and answer.get("kind") == "Status" else moment.status
    status |= {key: given[key] for key in ("status", "message", "reason", "details") if given.get(key)}
    status["code"] = moment.code
    return status


def _read(body: Body | None, decode: Decode) -> Any:
    """Return a decoded body; None for an empty one, and for one that is not valid."""
    if body is None or not body.content.strip():
        return None
    return decode(body.content, body.content_type)


def _shown(obj: Any, auditing: Auditing) -> Any:
    if not auditing.omit_managed_fields or not isinstance(obj, dict):
        return obj
    items, rows = obj.get("items"), obj.get("rows")
    if isinstance(items, list):
        return {**obj, "items": [_without_managers(item) for item in items]}
    if isinstance(rows, list):
        return {**obj, "rows": [_row_without_managers(row) for row in rows]}
    return _without_managers(obj)


def _row_without_managers(row: Any) -> Any:
    return {**row, "object": _without_managers(row["object"])} if isinstance(row, dict) and "object" in row else row


def _without_managers(obj: Any) -> Any:
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}


def encode_line(event: JsonObject, max_bytes: int = 0) -> bytes:
    """Return an event as a line of the log; without its bodies if it has more than `max_bytes` (0: no limit).

    Raises `EventTooLarge` if it is still larger.
    """
    line: bytes = msgspec.json.encode(event)
    if max_bytes and len(line) > max_bytes:
        kept = {key: value for key, value in event.items() if key not in ("requestObject", "responseObject")}
        line = msgspec.json.encode({**kept, "annotations": {**event.get("annotations", {}), _TRUNCATED: "true"}})
        if len(line) > max_bytes:
            raise EventTooLarge(f"the event {event['auditID']} has {len(line)} bytes without its bodies")
    return line + b"\n"
