"""Objects and an API client without a server, for the tests of live views."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator
from typing import Any

import msgspec

from bridgehead.client import ClientConfig, ListResult, WatchEvent
from bridgehead.client.codec import ListMeta
from bridgehead.client.errors import ClientError
from bridgehead.objects.core import Event, Node, Pod, Service
from bridgehead.objects.endpoint_slices import EndpointSlice
from bridgehead.objects.kinds import Kind
from bridgehead.objects.meta import Object

CREATED = "2026-11-21T02:00:00Z"
CREATED_SECONDS = 1795226400.0


def meta(name: str, namespace: str = "default", version: int = 1, **more: Any) -> dict[str, Any]:
    found = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version), "creationTimestamp": CREATED}
    return {**found, **({"namespace": namespace} if namespace else {}), **more}


def service(name: str, namespace: str = "default", version: int = 1, status: Any = None, **spec: Any) -> Service:
    whole = {"clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"], "ports": [{"port": 80}], "selector": {"app": name}}
    return msgspec.convert(
        {"metadata": meta(name, namespace, version), "spec": {**whole, **spec}, "status": status or {}}, Service
    )


def endpoint(address: str, pod: str = "", **conditions: bool) -> dict[str, Any]:
    target = {"targetRef": {"kind": "Pod", "name": pod, "uid": f"uid-{pod}"}} if pod else {}
    return {"addresses": [address], "conditions": {"ready": True, **conditions}, "nodeName": "node1", **target}


def slice_(of: str, *endpoints: dict[str, Any], name: str = "", version: int = 1, **more: Any) -> EndpointSlice:
    labels = {"kubernetes.io/service-name": of}
    return msgspec.convert(
        {
            "metadata": meta(name or f"{of}-x", version=version, labels=labels),
            "addressType": "IPv4",
            "endpoints": endpoints,
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
            **more,
        },
        EndpointSlice,
    )


def pod(
    name: str, namespace: str = "default", version: int = 1, *, node: str = "node1", spec: Any = None, **status: Any
) -> Pod:
    labels = status.pop("labels", {"app": name.rpartition("-")[0] or name})
    more = {"deletionTimestamp": CREATED} if status.pop("terminating", False) else {}
    running = {"name": "c", "ready": True, "state": {"running": {}}}
    whole = {
        "phase": "Running",
        "podIP": "10.244.1.5",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [running],
    }
    return msgspec.convert(
        {
            "metadata": meta(name, namespace, version, labels=labels, **more),
            "spec": {"nodeName": node, "containers": [{"name": "c"}], **(spec or {})},
            "status": {**whole, **status},
        },
        Pod,
    )


def node(name: str, version: int = 1, *, ready: str = "True", **spec: Any) -> Node:
    return msgspec.convert(
        {
            "metadata": meta(name, "", version),
            "spec": spec,
            "status": {
                "conditions": [{"type": "Ready", "status": ready}],
                "addresses": [{"type": "InternalIP", "address": "10.0.0.201"}],
                "nodeInfo": {"kubeletVersion": "v1.36.0"},
            },
        },
        Node,
    )


def event(name: str, about: str = "web-1", version: int = 1, **more: Any) -> Event:
    whole = {
        "metadata": meta(name, version=version),
        "involvedObject": {"kind": "Pod", "name": about, "namespace": "default"},
        "reason": "BackOff",
        "message": "Back-off restarting",
        "type": "Warning",
        "lastTimestamp": CREATED,
    }
    return msgspec.convert({**whole, **more}, Event)


class ApiDouble:
    """The part of `ApiClient` that live views use. Objects are put in and watched; errors can be set."""

    def __init__(self, *objects: tuple[Kind[Any], Object]) -> None:
        self.config = ClientConfig("https://test:6443")
        self.objects: dict[str, dict[Any, Object]] = defaultdict(dict)
        self.errors: dict[str, ClientError] = {}  # by plural; "" for every request
        self.pages: dict[str, bytes] = {}  # of get_raw, by a part of the path
        self.reads: list[str] = []
        self.answers = asyncio.Event()  # cleared: requests hang
        self.answers.set()
        self._watches: dict[str, list[asyncio.Queue[Any]]] = defaultdict(list)
        self.watched: dict[str, asyncio.Event] = defaultdict(asyncio.Event)  # by plural
        for kind, obj in objects:
            self.objects[kind.plural][obj.key] = obj

    def _check(self, plural: str) -> None:
        error = self.errors.get("") or self.errors.get(plural)
        if error is not None:
            raise error

    async def list(self, kind: Kind[Any], *selection: str) -> ListResult[Any]:
        self._check(kind.plural)
        return ListResult(metadata=ListMeta(resource_version="1"), items=list(self.objects[kind.plural].values()))

    async def watch(self, kind: Kind[Any], *selection: str, **options: Any) -> AsyncGenerator[WatchEvent[Any], None]:
        self._check(kind.plural)
        queue: asyncio.Queue[Any] = asyncio.Queue()
        self._watches[kind.plural].append(queue)
        self.watched[kind.plural].set()
        try:
            while True:
                found = await queue.get()
                if isinstance(found, ClientError):
                    raise found
                yield found
        finally:
            self._watches[kind.plural].remove(queue)
            self.watched[kind.plural].clear()

    async def request(self, method: str, path: str) -> dict[str, Any]:
        self._check("version")
        await self.answers.wait()
        return {}

    async def get_raw(self, path: str, most_bytes: int) -> bytes:
        self.reads.append(path)
        self._check("pages")
        return next(page for part, page in self.pages.items() if part in path)

    def put(self, kind: Kind[Any], obj: Object) -> None:
        """Create or change an object, and send it to the watches."""
        known = self.objects[kind.plural]
        type_ = "MODIFIED" if obj.key in known else "ADDED"
        known[obj.key] = obj
        self._send(kind.plural, WatchEvent(type_, obj))

    def remove(self, kind: Kind[Any], obj: Object) -> None:
        self.objects[kind.plural].pop(obj.key)
        self._send(kind.plural, WatchEvent("DELETED", obj))

    def break_watches(self, error: ClientError) -> None:
        for plural in self._watches:
            self._send(plural, error)

    def _send(self, plural: str, event: object) -> None:
        for queue in self._watches[plural]:
            queue.put_nowait(event)
