"""Random requests made from the OpenAPI v3 that the server publishes: every kind, verb and subresource.

`python -m benchmarks.fuzz --requests 20000 --seed 1` makes many, and prints each different finding:
an answer 5xx that is not Kubernetes' own, an exception in the log, a request that takes longer than seconds.
"""

from __future__ import annotations

import asyncio
import copy
import json
import logging
import random
import time
import traceback
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from bridgehead.apiserver.admission import service_accounts
from tests.unit.apiserver.fuzz_seeds import CUSTOM_SCHEMA, SEEDS
from tests.unit.apiserver.fuzz_values import ACCEPTS, EXPECTED, NAMED, NUMBERS, ODD, PATCHES, QUERIES, TEXTS
from tests.unit.apiserver.world import ADMIN, Reader, World, open_world

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PROTOBUF = "application/vnd.kubernetes.protobuf"
SLOW_SECONDS, HANG_SECONDS = 2.0, 60.0
REQUESTS_OF_A_WORLD = 400  # then a new one: an object of the first, such as a policy, may refuse all that follows


class Schemas:
    """The published definitions, and values made from them."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.definitions: dict[str, Any] = {}

    def resolve(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        for _ in range(9):
            if "allOf" in schema:
                schema = schema["allOf"][0]
            if "$ref" not in schema:
                break
            schema = self.definitions.get(schema["$ref"].rpartition("/")[2], {})
        return schema

    def value(self, given: Mapping[str, Any], name: str = "", depth: int = 0) -> Any:
        draw, schema = self.draw, self.resolve(given)
        if draw.random() < 0.01:
            return draw.choice(ODD)
        if NAMED.get(name) and draw.random() < 0.8:
            return draw.choice(NAMED[name])
        kind = schema.get("type", "object" if "properties" in schema else "")
        if "enum" in schema and draw.random() < 0.95:
            return draw.choice(schema["enum"])
        match kind:
            case "object" if "properties" in schema:
                properties, required = schema["properties"], schema.get("required", ())
                share = min(1.0, (3.5 if depth < 3 else 1.5) / len(properties)) if depth < 9 else 0.0
                wanted = [key for key in properties if key in required or draw.random() < share]
                return {key: self.value(properties[key], key, depth + 1) for key in wanted if depth < 14}
            case "object":
                inner = schema.get("additionalProperties")
                keys = [draw.choice(TEXTS[:8]) for _ in range(draw.randrange(3))]  # a set has no order that lasts
                return {k: self.value(inner if isinstance(inner, dict) else {}, "", depth + 1) for k in keys}
            case "array":
                count = draw.choice((0, 1, 1, 1, 2)) if depth < 12 else 0
                return [self.value(schema.get("items", {}), name[:-1], depth + 1) for _ in range(count)]
            case "integer" | "number":
                return draw.choice(NUMBERS)
            case "boolean":
                return draw.random() < 0.5
            case "string":
                if schema.get("format") == "date-time":
                    return draw.choice(
                        ("2026-11-21T03:48:41Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "x", None)
                    )
                return draw.choice(TEXTS)
        return draw.choice((*TEXTS, *NUMBERS, *ODD))

    def changed(self, value: Any, given: Mapping[str, Any], name: str = "", depth: int = 0) -> Any:
        """Change one part of a value: a new one, none, twice, or a further field."""
        draw, schema = self.draw, self.resolve(given)
        if depth and draw.random() < 0.12:
            return self.value(schema, name, depth)
        if isinstance(value, dict):
            value = dict(value)
            properties = schema.get("properties", {})
            if properties and (not value or draw.random() < 0.35):
                key = draw.choice(list(properties))
                value[key] = self.value(properties[key], key, depth + 1)
            elif value:
                key = draw.choice(list(value))
                if draw.random() < 0.08:
                    del value[key]
                else:
                    inner = properties.get(key, schema.get("additionalProperties"))
                    inner = inner if isinstance(inner, dict) else {}
                    value[key] = self.changed(value[key], inner, key, depth + 1)
            return value
        if isinstance(value, list) and value:
            value, index, items = list(value), draw.randrange(len(value)), schema.get("items", {})
            match draw.randrange(8):
                case 0:
                    del value[index]
                case 1:
                    value.append(value[index])
                case 2:
                    value.append(self.value(items, name[:-1], depth + 1))
                case _:
                    value[index] = self.changed(value[index], items, name[:-1], depth + 1)
            return value
        return self.value(schema, name, depth)


@dataclass
class Endpoint:
    """A resource or subresource with what the server publishes of it."""

    path: str  # with {namespace} and {name}
    verbs: tuple[str, ...]
    schema: Mapping[str, Any]
    kind: str
    api_version: str
    known: list[Any] = field(default_factory=list)  # sound objects, also those that the server has accepted


@dataclass
class Finding:
    text: str
    request: str
    count: int = 1


class Fuzzer:
    """Makes requests from a seed; `findings` are by their origin. One seed always makes equal requests."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.schemas = Schemas(self.draw)
        self.endpoints: list[Endpoint] = []
        self.findings: dict[str, Finding] = {}
        self.statuses: Counter[int] = Counter()
        self.log = _Log()
        self._made = 0
        self._names: dict[str, list[str]] = {}  # of the objects that the world has, by the path of their create
        self._protobufs: list[bytes] = []

    async def learn(self, world: World) -> None:
        """Read the definitions, the resources and the objects that the server begins with."""
        kinds: dict[tuple[str, str, str], Mapping[str, Any]] = {}
        for path in (await world.get("/openapi/v3"))["paths"]:
            published = (await world.get(f"/openapi/v3/{path}"))["components"]["schemas"]
            self.schemas.definitions |= published
            for name, schema in published.items():
                for gvk in schema.get("x-kubernetes-group-version-kind", ()):
                    kinds[gvk["group"], gvk["version"], gvk["kind"]] = {"$ref": f"#/components/schemas/{name}"}
        await world.create(CRDS, SEEDS[CRDS])
        groups = (await world.get("/apis"))["groups"]
        roots = ["/api/v1", *(f"/apis/{v['groupVersion']}" for group in groups for v in group["versions"])]
        for root in roots:
            listed = await world.get(root)
            for found in listed.get("resources", ()):
                plural, _, sub = found["name"].partition("/")
                group, _, version = listed["groupVersion"].rpartition("/")
                gvk = (found.get("group", group), found.get("version", version), found["kind"])
                scope = "/namespaces/{namespace}" if found["namespaced"] else ""
                path = f"{root}{scope}/{plural}" + (f"/{{name}}/{sub}" if sub else "")
                api_version = f"{gvk[0]}/{gvk[1]}".lstrip("/")
                endpoint = Endpoint(
                    path, tuple(found["verbs"]), kinds.get(gvk, CUSTOM_SCHEMA), found["kind"], api_version
                )
                endpoint.known += [
                    o
                    for url, o in SEEDS.items()
                    if url == path.replace("{namespace}", "default").replace("{name}", "x")
                ]
                if "list" in found["verbs"]:
                    items = (await world.get(f"{root}/{plural}")).get("items", [])
                    endpoint.known += [_bare(item) for item in items[:6]]
                self.endpoints.append(endpoint)

    async def run(self, world: World, requests: int) -> None:
        """Make requests of one world."""
        self._names.clear()
        logging.getLogger().addHandler(self.log)
        try:
            for endpoint in sorted(
                self.endpoints, key=lambda e: not e.path.endswith(("customresourcedefinitions", "serviceaccounts"))
            ):  # objects to read and change from the beginning
                for obj in endpoint.known[:2]:
                    await self._ask(world, endpoint, "POST", self._url(endpoint, "default"), obj, {})
            for _ in range(requests):
                await self._one(world)
        finally:
            logging.getLogger().removeHandler(self.log)

    def _url(self, endpoint: Endpoint, namespace: str = "") -> str:
        namespace = namespace or self.draw.choice(("default",) * 30 + ("x", "kube-system", "missing", "É"))
        return endpoint.path.replace("{namespace}", namespace)

    def _object(self, endpoint: Endpoint) -> Any:
        draw = self.draw
        if endpoint.known and draw.random() < 0.8:
            obj = draw.choice(endpoint.known)
            for _ in range(draw.choice((0, 1, 1, 2, 3, 6))):
                obj = self.schemas.changed(obj, endpoint.schema)
        else:
            obj = self.schemas.value(endpoint.schema, depth=0)
        meta = obj.get("metadata") if isinstance(obj, dict) else None
        if isinstance(meta, dict) and draw.random() < 0.9:
            obj["metadata"] = {key: value for key, value in meta.items() if key not in ("namespace", "resourceVersion")}
        if isinstance(obj, dict) and draw.random() < 0.97:
            obj = {**obj, "apiVersion": endpoint.api_version, "kind": endpoint.kind}
        return obj

    def _name(self, endpoint: Endpoint) -> str:
        stored = self._names.get(endpoint.path.partition("/{name}")[0], [])
        if stored and self.draw.random() < 0.85:
            return self.draw.choice(stored[-6:])
        return self.draw.choice(("x", "x", "y", "default", "missing", "%00", ".."))

    async def _one(self, world: World) -> None:
        draw, endpoint = self.draw, self.draw.choice(self.endpoints)
        methods = {
            "create": "POST",
            "update": "PUT",
            "patch": "PATCH",
            "delete": "DELETE",
            "get": "GET",
            "list": "LIST",
        }
        methods |= {"deletecollection": "CLEAR"}
        chosen = [methods[v] for v in endpoint.verbs if v in methods]
        chosen += [m for m in chosen if m in ("POST", "PUT", "PATCH")] * 2
        method = (
            draw.choice(chosen or ["POST"]) if draw.random() < 0.97 else draw.choice(("GET", "PUT", "POST", "OPTIONS"))
        )
        if method == "CLEAR" and draw.random() < 0.7:
            method = "PATCH"
        url, name = self._url(endpoint), self._name(endpoint)
        headers = {"accept": draw.choice(ACCEPTS)} if draw.random() < 0.3 else {}
        body: Any = None
        if "{name}" in url:
            url = url.replace("{name}", name)
            url += draw.choice(("", "/", "/x")) if endpoint.path.endswith("/proxy") else ""
        elif method in ("GET", "PUT", "PATCH", "DELETE"):
            url += f"/{name}"
        if method in ("POST", "PUT"):
            body = self._object(endpoint)
            meta = body.get("metadata") if isinstance(body, dict) else None
            if method == "PUT" and isinstance(meta, dict | None) and isinstance(body, dict) and draw.random() < 0.9:
                body["metadata"] = {**(meta or {}), "name": name}
            elif isinstance(meta, dict) and draw.random() < 0.85:
                self._made += 1
                body["metadata"] = {**meta, "name": f"n{self._made}"}
        elif method == "PATCH":
            kind = draw.choice(PATCHES[:4] * 6 + PATCHES)
            headers["content-type"] = f"application/{kind}"
            body = self._patch(endpoint, kind, name)
        elif method in ("DELETE", "CLEAR") and draw.random() < 0.4:
            options = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
            body = self.schemas.value({"$ref": options})
        if method in ("POST", "PUT") and self._protobufs and draw.random() < 0.07:
            raw = bytearray(draw.choice(self._protobufs[-200:]))
            for _ in range(draw.randrange(4)):
                raw[draw.randrange(len(raw))] = draw.randrange(256)
            body, headers["content-type"] = bytes(raw), PROTOBUF
        method = {"LIST": "GET", "CLEAR": "DELETE"}.get(method, method)
        query = {key: draw.choice(QUERIES[key]) for key in draw.sample(list(QUERIES), draw.choice((0, 0, 0, 1, 1, 2)))}
        if "content-type" in headers and "apply" in headers["content-type"]:
            query.setdefault("fieldManager", "m")
        url += "?" + "&".join(f"{key}={value}" for key, value in query.items()) if query else ""
        await self._ask(world, endpoint, method, url, body, headers)

    def _patch(self, endpoint: Endpoint, kind: str, name: str) -> Any:
        draw, obj = self.draw, copy.deepcopy(self._object(endpoint))
        if kind.startswith("apply") and isinstance(obj, dict):
            meta = obj.get("metadata")
            obj["metadata"] = {**(meta if isinstance(meta, dict) else {}), "name": name}
            obj["metadata"].pop("managedFields", None)
            return obj
        if kind.startswith("json") and draw.random() < 0.95:
            paths = list(_pointers(obj))
            ops = ("add", "replace", "remove", "test", "copy", "move", "x")
            return [
                {"op": draw.choice(ops), "path": draw.choice(paths)[0], "from": draw.choice(paths)[0]}
                | {"value": draw.choice(paths)[1] if draw.random() < 0.6 else draw.choice(ODD)}
                for _ in range(draw.randrange(1, 4))
            ]
        if isinstance(obj, dict):
            obj = {key: value for key, value in obj.items() if draw.random() < 0.6}
            for _, inner in list(_pointers(obj)):
                if isinstance(inner, dict) and inner and draw.random() < 0.04:
                    key = draw.choice(list(inner))
                    directive = (f"$setElementOrder/{key}", f"$deleteFromPrimitiveList/{key}", "$retainKeys", "$patch")
                    inner[draw.choice(directive)] = draw.choice(
                        ("delete", "replace", "merge", [], ["x"], [{}], [key], None)
                    )
                elif isinstance(inner, dict) and inner and draw.random() < 0.04:
                    inner[draw.choice(list(inner))] = None
        return obj

    async def _ask(
        self, world: World, endpoint: Endpoint, method: str, url: str, body: Any, headers: dict[str, str]
    ) -> None:
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json", **headers} if raw else headers
        if raw:
            headers["content-length"] = str(len(raw))
        request = f"{method} {url} {headers} {raw!r}"
        begun = time.perf_counter()
        self.log.records.clear()
        try:
            async with asyncio.timeout(HANG_SECONDS):
                status, answer = await _call(world, method, url, raw, headers)
        except TimeoutError:
            self._find(f"hang {method} {endpoint.path}", "", request)
            return
        except Exception as error:  # noqa: BLE001 - any is a finding
            self._find(_origin(error), "".join(traceback.format_exception(error)), request)
            return
        took = time.perf_counter() - begun
        self.statuses[status] += 1
        if took > SLOW_SECONDS:
            self._find(f"slow {method} {endpoint.path}", f"{took:.1f} s", request)
        for record in self.log.records:
            error = record.exc_info[1] if record.exc_info else None
            if error is not None:
                self._find(_origin(error), "".join(traceback.format_exception(error)), request)
            elif not any(text in record.getMessage() for text in EXPECTED):
                self._find(f"log {record.msg}", record.getMessage(), request)
        text = answer.decode(errors="replace")
        known = any(part in text for part in EXPECTED) or any(record.exc_info for record in self.log.records)
        if status >= 500 and not known:
            self._find(f"{status} {endpoint.path} {method}", text, request)
        if answer.startswith(b"k8s\0"):
            self._protobufs.append(answer[:5000])
        if status == 201 and "{name}" not in endpoint.path and isinstance(body, dict) and "dryRun" not in url:
            meta = body.get("metadata")
            if isinstance(meta, dict) and isinstance(meta.get("name"), str):
                self._names.setdefault(endpoint.path, []).append(meta["name"])
        if status in (200, 201) and method in ("POST", "PUT") and isinstance(body, dict) and len(raw) < 20_000:
            endpoint.known = [*endpoint.known, copy.deepcopy(body)][-40:]

    def _find(self, key: str, text: str, request: str) -> None:
        if key in self.findings:
            self.findings[key].count += 1
        else:
            self.findings[key] = Finding(text, request)


class _Log(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


def _origin(error: BaseException) -> str:
    """Return where an exception comes from: type, file and line of the innermost frame."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/bridgehead/" in frame.filename]
    return " ".join(
        [type(error).__name__, *(f"{f.filename.rpartition('/bridgehead/')[2]}:{f.lineno}" for f in own[-1:])]
    )


def _bare(obj: dict[str, Any]) -> dict[str, Any]:
    """Return an object as a client sends it."""
    gone = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation")
    return obj | {"metadata": {k: v for k, v in obj["metadata"].items() if k not in gone}}


def _pointers(value: Any, path: str = "") -> Any:
    yield path, value
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from _pointers(child, f"{path}/{str(key).replace('~', '~0').replace('/', '~1')}")


async def _call(world: World, method: str, url: str, raw: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
    """Make a request whose client leaves after its body: a watch ends then."""
    sent: list[Mapping[str, Any]] = []
    given = iter([{"type": "http.request", "body": raw, "more_body": False}])

    async def receive() -> dict[str, Any]:
        return next(given, {"type": "http.disconnect"})

    async def send(message: Mapping[str, Any]) -> None:
        sent.append(message)

    scope = world.scope(method, url, headers, ADMIN)
    assert isinstance(scope["state"]["connection"], Reader)
    await world.parts.application(scope, receive, send)
    return (sent[0]["status"] if sent else 0), b"".join(message.get("body", b"") for message in sent[1:])


class OwnLoop(asyncio.SelectorEventLoop):
    """An event loop without the network: a webhook, a node or an aggregated server is never reached."""

    async def sock_connect(self, sock: Any, address: Any) -> None:
        raise ConnectionRefusedError(f"dial tcp {address}: connection refused")

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        return [(2, 1, 6, "", ("127.0.0.1", 1))]


async def fuzz(seed: int, requests: int) -> Fuzzer:
    """Make `requests` in as many worlds as they need."""
    fuzzer = Fuzzer(seed)
    with mock.patch.object(service_accounts, "_DEFAULT_ACCOUNT_SECONDS", 0.0):  # accounts are deleted here, too
        for left in range(requests, 0, -REQUESTS_OF_A_WORLD):
            async with open_world() as world:
                if not fuzzer.endpoints:
                    await fuzzer.learn(world)
                await fuzzer.run(world, min(left, REQUESTS_OF_A_WORLD))
    return fuzzer
