"""The API client: one method for each verb, typed by `Kind`. All requests to the API server are sent by this class.

Every method raises the errors of `errors.py`. Source: Kubernetes "API concepts".
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import msgspec

from bridgehead.objects.kinds import Kind
from bridgehead.objects.meta import Object

from .codec import ListResult, WatchEvent, codec_of, decode_json_event
from .errors import BadAnswer
from .http_library import aiohttp
from .kubeconfig import ClientConfig
from .transport import Transport

T = TypeVar("T", bound=Object)
Json = dict[str, Any]

_JSON = "application/json"
_PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",  # JSON is YAML
}
WATCH_SECONDS = 300  # a watch lasts one to two times this long, so that watches spread over API servers
_SILENCE_MARGIN = 30
RAW_SILENCE_SECONDS = 30.0
# Bookmarks come about once a minute. A watch that is silent for this long hangs, in the server or in the network.
BOOKMARK_SILENCE_SECONDS = 150


class ApiClient:
    """Use as `async with ApiClient(config) as client`. Safe to share between tasks of one event loop."""

    def __init__(self, config: ClientConfig, user_agent: str = "bridgehead") -> None:
        self.config = config
        self._transport = Transport(config, user_agent)

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self, type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._transport.__aexit__(type, error, traceback)

    async def get(self, kind: Kind[T], name: str, namespace: str = "") -> T:
        body = await self._transport.send("GET", kind.path(namespace, name), None, {}, _JSON)
        return codec_of(kind).decode_object(body)

    async def list(
        self,
        kind: Kind[T],
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_: str = "",
    ) -> ListResult[T]:
        """Return all objects, or at most `limit`; then `metadata.continue_` of the result leads to the next page."""
        params = _selectors(label_selector, field_selector)
        if limit:
            params["limit"] = str(limit)
        if continue_:
            params["continue"] = continue_
        return codec_of(kind).decode_list(await self._transport.send("GET", kind.path(namespace), None, params, _JSON))

    async def create(self, kind: Kind[T], obj: T | Mapping[str, Any], namespace: str = "") -> T:
        """Create the object. `namespace` may be omitted when the object's metadata has one."""
        codec = codec_of(kind)
        path = kind.path(namespace or _metadata(obj)[0])
        return codec.decode_object(await self._transport.send("POST", path, codec.encode(obj), {}, _JSON))

    async def update(self, kind: Kind[T], obj: T | Mapping[str, Any], subresource: str = "") -> T:
        """Replace the object, which must have no other writers: a struct lacks some of the object's fields."""
        codec = codec_of(kind)
        path = kind.path(*_metadata(obj), subresource)
        return codec.decode_object(await self._transport.send("PUT", path, codec.encode(obj), {}, _JSON))

    async def patch(
        self,
        kind: Kind[T],
        name: str,
        namespace: str,
        patch: Mapping[str, Any] | Sequence[Json],
        type: Literal["merge", "strategic", "json", "apply"] = "merge",
        subresource: str = "",
        field_manager: str = "",
    ) -> T:
        """Change the object. "apply" is server-side apply, which creates a missing object and needs `field_manager`."""
        path = kind.path(namespace, name, subresource)
        body = msgspec.json.encode(patch)
        params = {"fieldManager": field_manager} if field_manager else {}
        return codec_of(kind).decode_object(await self._transport.send("PATCH", path, body, params, _PATCH_TYPES[type]))

    async def delete(
        self,
        kind: Kind[T],
        name: str,
        namespace: str = "",
        uid: str | None = None,
        resource_version: str | None = None,
        grace_period_seconds: int | None = None,
        propagation_policy: Literal["Background", "Foreground", "Orphan"] | None = None,
    ) -> None:
        """Delete the object; with `uid` or `resource_version` only if it still has them, else raise Conflict."""
        options: Json = {"apiVersion": "v1", "kind": "DeleteOptions"}
        preconditions = {
            field: value for field, value in (("uid", uid), ("resourceVersion", resource_version)) if value is not None
        }
        if preconditions:
            options["preconditions"] = preconditions
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        if propagation_policy is not None:
            options["propagationPolicy"] = propagation_policy
        await self._transport.send("DELETE", kind.path(namespace, name), msgspec.json.encode(options), {}, _JSON)

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
        """Yield events after `resource_version` until the server ends the watch, which it does every few minutes.

        `initial`: begin with the objects that there are, as ADDED events, and a bookmark with an annotation. Servers
        that do not know this raise Invalid.
        Close the iterator when leaving early (`contextlib.aclosing`). Raises Gone when the server's history does not
        reach back to `resource_version`, Unreachable when neither events nor bookmarks arrive any more.
        """
        seconds = int(WATCH_SECONDS * (1 + random.random()))
        params = {"watch": "1", "timeoutSeconds": str(seconds), **_selectors(label_selector, field_selector)}
        if resource_version:
            params["resourceVersion"] = resource_version
        if bookmarks:
            params["allowWatchBookmarks"] = "true"
        if initial:
            params |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        codec = codec_of(kind)
        path = kind.path(namespace)
        silence = BOOKMARK_SILENCE_SECONDS if bookmarks else seconds + _SILENCE_MARGIN
        async with (
            self._transport.stream(path, params, silence) as content,
            contextlib.aclosing(_lines(content.iter_any())) as lines,
        ):
            async for line in lines:
                yield codec.decode_event(line)

    async def get_raw(self, path: str, most_bytes: int) -> bytes:
        """Return the body of an answer that need not be JSON, such as a metrics page. `path` begins with a slash.

        Raises BadAnswer if it is larger than `most_bytes`.
        """
        found, size = [], 0
        async with contextlib.aclosing(self.stream_raw(path, {}, RAW_SILENCE_SECONDS)) as chunks:
            async for chunk in chunks:
                size += len(chunk)
                if size > most_bytes:
                    raise BadAnswer(f"GET {path}: the answer is larger than {most_bytes} bytes")
                found.append(chunk)
        return b"".join(found)

    async def stream_raw(
        self, path: str, params: Mapping[str, str], silence_seconds: float
    ) -> AsyncGenerator[bytes, None]:
        """Yield the body of an answer as it arrives, for example a log that is followed.

        Close the iterator when leaving early. Raises Unreachable after `silence_seconds` without data.
        """
        async with self._transport.stream(path, params, silence_seconds) as content:
            async for chunk in content.iter_any():
                yield chunk

    async def watch_json(
        self, path: str, resource_version: str, label_selector: str = ""
    ) -> AsyncGenerator[Json, None]:
        """Yield the events of a watch as they were sent, with all fields of their objects, and bookmarks.

        `path` is that of a collection. Otherwise as `watch`.
        """
        params = {"watch": "1", "timeoutSeconds": str(int(WATCH_SECONDS * (1 + random.random())))}
        params |= {"resourceVersion": resource_version, "allowWatchBookmarks": "true"}
        params |= _selectors(label_selector, "")
        async with (
            self._transport.stream(path, params, BOOKMARK_SILENCE_SECONDS) as content,
            contextlib.aclosing(_lines(content.iter_any())) as lines,
        ):
            async for line in lines:
                yield decode_json_event(line)

    async def request(
        self, method: str, path: str, *, json: Any = None, params: Mapping[str, str] | None = None
    ) -> Json:
        """Send a request for which there is no method: discovery, `binding`, `finalize`. `path` begins with a slash."""
        body = None if json is None else msgspec.json.encode(json)
        answer = await self._transport.send(method, path, body, params or {}, _JSON)
        try:
            return msgspec.json.decode(answer, type=dict[str, Any])
        except msgspec.MsgspecError as error:
            raise BadAnswer(f"{method} {path}: the answer is not a JSON object: {error}") from error

    def open_socket(
        self, path: str, params: Sequence[tuple[str, str]], protocols: Sequence[str]
    ) -> contextlib.AbstractAsyncContextManager[aiohttp.ClientWebSocketResponse]:
        """Open a WebSocket with the first of the subprotocols that the server has. Used by `pod_exec`."""
        return self._transport.open_socket(path, params, protocols)


def _selectors(label_selector: str, field_selector: str) -> dict[str, str]:
    params = {}
    if label_selector:
        params["labelSelector"] = label_selector
    if field_selector:
        params["fieldSelector"] = field_selector
    return params


def _metadata(obj: Object | Mapping[str, Any]) -> tuple[str, str]:
    """Return namespace and name."""
    if isinstance(obj, Object):
        return obj.metadata.namespace, obj.metadata.name
    metadata = obj.get("metadata") or {}
    return metadata.get("namespace") or "", metadata.get("name") or ""


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Yield lines of any length. An incomplete line at the end of the stream is dropped."""
    begun: list[bytes] = []
    async for chunk in chunks:
        head, newline, rest = chunk.partition(b"\n")
        begun.append(head)
        if not newline:
            continue
        yield b"".join(begun)
        *whole, tail = rest.split(b"\n")
        for line in whole:
            if line:
                yield line
        begun = [tail]
