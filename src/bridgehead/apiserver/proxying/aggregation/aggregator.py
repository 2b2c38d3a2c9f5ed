"""Aggregated APIs: which requests go to which servers, and whether these servers can be reached.

The controller follows the APIServices. For each one that points to a Service it follows this Service and its
EndpointSlices, checks the endpoints, sets the condition Available and fetches the documents of the servers.
Source: kube-aggregator `handler_proxy.go`, `remote_available_controller.go`, `apiservice_controller.go`.
"""

from __future__ import annotations

import asyncio
import logging
import random
from dataclasses import replace
from urllib.parse import parse_qsl, quote, urlencode

import msgspec

from bridgehead.apiserver.errors import ApiStatus
from bridgehead.apiserver.handlers.discovery import Discovery
from bridgehead.apiserver.handlers.external import ExternalApi
from bridgehead.apiserver.handlers.openapi import OpenApi
from bridgehead.apiserver.http.request import Request, Response, text_response
from bridgehead.apiserver.http.tunnel import asks_for_upgrade
from bridgehead.apiserver.proxying.connections import Connections
from bridgehead.apiserver.proxying.passing import pass_on
from bridgehead.apiserver.proxying.routes import Route
from bridgehead.apiserver.proxying.targets import Target
from bridgehead.apiserver.registry.registry import Registry
from bridgehead.apiserver.registry.write import Write
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources import apiservices
from bridgehead.apiserver.resources.shared.conditions import find_condition
from bridgehead.apiserver.service_endpoints import SERVICE_LABEL, SLICES, NoEndpoint, read_endpoints
from bridgehead.backoff import Backoff
from bridgehead.objects.times import format_time
from bridgehead.storage import Change, Overflow, StorageError, TooOld

from .api_availability import check_endpoints
from .api_service_status import Availability, GroupVersion, RemoteApi, check_service, find_targets, parse_remote
from .fetching import Fetcher
from .local_apis import LABEL, LocalApis
from .server_documents import fetch_documents
from .server_transport import Transport, user_headers

log = logging.getLogger(__name__)

RESOURCE = apiservices.RESOURCE
# Time after which an aggregated API, which may fail without any change of an object, is checked again, and its
# documents are fetched again.
_RECHECK_SECONDS = 30.0
_FIRST_RETRY_SECONDS = 0.25
_OPENAPI_3 = "/openapi/v3"

_decode = msgspec.json.decode


class _Remote:
    """The state of one aggregated API. `changed` is set when its endpoints have to be checked."""

    def __init__(self, api: RemoteApi) -> None:
        self.api = api
        self.targets: list[Target] = []
        self.changed = asyncio.Event()
        self.external: ExternalApi | None = None
        self.task: asyncio.Task[None] | None = None


class Aggregator:
    """The controller, and the answers to requests for aggregated APIs."""

    def __init__(
        self,
        registry: Registry,
        discovery: Discovery,
        openapi: OpenApi,
        connections: Connections,
        transport: Transport,
    ) -> None:
        self._registry = registry
        self._store = registry.store
        self._discovery = discovery
        self._openapi = openapi
        self._connections = connections
        self._transport = transport
        self._fetcher = Fetcher(connections, transport)
        self._local = LocalApis(registry)
        self._remotes: dict[str, _Remote] = {}  # by name of the APIService
        self._routes: dict[GroupVersion, _Remote] = {}
        self._local_changed = asyncio.Event()

    # --- Requests -----------------------------------------------------------------------------------------------

    def serves(self, path: str) -> bool:
        """Whether a path belongs to an aggregated API."""
        return bool(self._routes) and self._find(path) is not None

    async def answer(self, request: Request) -> Response:
        """Pass a request on. Raises `Disconnected`."""
        remote = self._find(request.info.path)
        if remote is None or not remote.api.is_available or not remote.targets:
            return _text(503, "service unavailable")
        try:
            tls = self._transport.tls(remote.api)
        except ValueError as error:
            return _text(500, str(error))
        target = random.choice(remote.targets)
        path = quote(request.info.path, safe="-_.~$&+,/:;=@")
        pairs = parse_qsl(request.scope["query_string"].decode("latin-1"), keep_blank_values=True)
        query = urlencode(sorted(pairs, key=lambda pair: pair[0]))
        is_upgraded = asks_for_upgrade(request.scope["headers"])
        forwarded = (
            (b"x-forwarded-uri", path.encode()),
            (b"x-forwarded-host", target.authority.encode()),
            (b"x-forwarded-proto", b"https"),
        )
        route = Route(
            target=target,
            path=f"{path}?{query}" if query else path,
            tls=tls,
            server_name=remote.api.server_name,
            extra_headers=(
                (b"host", target.authority.encode()),
                (b"audit-id", request.audit_id),
                *user_headers(request.user),
                *(() if is_upgraded else forwarded),
            ),
        )
        try:
            return await pass_on(request, route, self._connections)
        except ApiStatus as status:
            return _text(503, status.message)

    def _find(self, path: str) -> _Remote | None:
        match path.removeprefix(_OPENAPI_3).split("/", 4):
            case ["", "apis", group, version, *_]:
                return self._routes.get((group, version))
        return None

    # --- The controller -----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Follow the APIServices until cancelled."""
        self._registry.table.on_change(self._local_changed.set)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._register())
                tasks.create_task(self._follow(tasks))
        finally:
            self._remotes.clear()
            self._routes.clear()

    async def _register(self) -> None:
        await self._local.sync(starts=True)
        while True:
            await self._local_changed.wait()
            self._local_changed.clear()
            await self._local.sync(starts=False)

    async def _follow(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            watch = self._store.watch(RESOURCE.id, since=self._store.revision)
            try:
                records = self._store.list(RESOURCE.id)
                for name in self._remotes.keys() - {record.key.name for record in records}:
                    self._remove(name)
                for record in records:
                    await self._take(record.value, tasks)
                async for changes in watch:
                    for change in changes:
                        await self._take_change(change, tasks)
                return
            except (Overflow, TooOld):
                continue
            finally:
                watch.close()

    async def _take_change(self, change: Change, tasks: asyncio.TaskGroup) -> None:
        if change.type == "DELETED":
            self._remove(change.record.key.name)
            if LABEL in change.record.facts.labels:
                self._local_changed.set()
        else:
            await self._take(change.record.value, tasks)

    async def _take(self, value: bytes, tasks: asyncio.TaskGroup) -> None:
        """Take over a stored APIService."""
        obj = _decode(value)
        name = obj["metadata"]["name"]
        api = parse_remote(obj)
        if api is None:
            self._remove(name)
            await self._set_local(obj)
            return
        remote = self._remotes.get(name)
        if remote is None:
            remote = self._remotes[name] = _Remote(api)
            remote.task = tasks.create_task(self._keep(remote))
        elif remote.api._replace(is_available=api.is_available) != api:
            remote.changed.set()
        remote.api = api
        self._routes = {(one.api.group, one.api.version): one for one in self._remotes.values()}
        self._publish()

    def _remove(self, name: str) -> None:
        remote = self._remotes.pop(name, None)
        if remote is None:
            return
        if remote.task is not None:
            remote.task.cancel()
        self._routes = {(one.api.group, one.api.version): one for one in self._remotes.values()}
        self._publish()

    def _publish(self) -> None:
        """Show the aggregated APIs in discovery and OpenAPI."""
        apis: list[ExternalApi] = []
        for remote in self._remotes.values():
            api = remote.api
            shown = remote.external or ExternalApi(api.group, api.version)
            if not api.is_available:
                shown = ExternalApi(api.group, api.version, shown.resources)
            priorities = (api.group_priority, api.version_priority)
            apis.append(replace(shown, priorities=priorities))
        self._discovery.set_external(apis)
        self._openapi.set_external(apis)

    # --- One aggregated API ---------------------------------------------------------------------------------------

    async def _keep(self, remote: _Remote) -> None:
        """Check an API when something that it depends on has changed, and now and then."""
        backoff = Backoff(_FIRST_RETRY_SECONDS, _RECHECK_SECONDS)
        following: asyncio.Task[None] | None = None
        followed = ("", "")
        try:
            while True:
                if followed != (remote.api.namespace, remote.api.service):
                    followed = (remote.api.namespace, remote.api.service)
                    if following is not None:
                        following.cancel()
                    following = asyncio.ensure_future(self._follow_service(remote, *followed))
                remote.changed.clear()
                is_available = await self._check(remote)
                if is_available:
                    backoff.reset()
                delay = _RECHECK_SECONDS if is_available else backoff.next()
                try:
                    async with asyncio.timeout(delay):
                        await remote.changed.wait()
                except TimeoutError:
                    continue
        finally:
            if following is not None:
                following.cancel()

    async def _check(self, remote: _Remote) -> bool:
        """Check an API, set its condition, fetch its documents; return whether it is available."""
        try:
            return await self._check_now(remote)
        except Exception:
            # The objects and documents are those of users: what they contain must not end the controller.
            log.exception("the check of the APIService %s failed", remote.api.name)
            return False

    async def _check_now(self, remote: _Remote) -> bool:
        api = remote.api
        availability = await self._find_availability(remote)
        is_available = availability.status == "True"
        if is_available:
            target = random.choice(remote.targets)
            remote.external = await fetch_documents(api, target, self._fetcher, remote.external)
            self._publish()
        await self._set_condition(api.name, availability)
        return is_available

    async def _find_availability(self, remote: _Remote) -> Availability:
        api = remote.api
        behind = read_endpoints(self._store, api.namespace, api.service)
        remote.targets = []
        failure = check_service(api, behind)
        if failure is not None:
            return failure
        try:
            remote.targets = find_targets(api, behind)
        except NoEndpoint as error:
            return Availability("False", "FailedDiscoveryCheck", str(error))
        return await check_endpoints(api, random.sample(remote.targets, len(remote.targets)), self._fetcher)

    async def _follow_service(self, remote: _Remote, namespace: str, name: str) -> None:
        await asyncio.gather(
            self._follow_objects(remote, "services", namespace, name),
            self._follow_objects(remote, SLICES, namespace, name),
        )

    async def _follow_objects(self, remote: _Remote, resource: str, namespace: str, name: str) -> None:
        while True:
            watch = self._store.watch(resource, namespace, since=self._store.revision)
            try:
                async for changes in watch:
                    if any(_concerns(change, name) for change in changes):
                        remote.changed.set()
                return
            except (Overflow, TooOld):
                remote.changed.set()
            finally:
                watch.close()

    async def _set_condition(self, name: str, availability: Availability) -> None:
        now = format_time(self._registry.clock())
        condition = {
            "type": apiservices.AVAILABLE,
            "status": availability.status,
            "lastTransitionTime": now,
            "reason": availability.reason,
            "message": availability.message,
        }
        await self._write_condition(name, condition)

    async def _set_local(self, obj: JsonObject) -> None:
        """Correct the condition of an API that was aggregated before."""
        condition = find_condition(obj.get("status", {}).get("conditions"), apiservices.AVAILABLE)
        if condition is None or condition.get("reason") != "Local":
            now = format_time(self._registry.clock())
            await self._write_condition(obj["metadata"]["name"], apiservices.local_condition(now))

    async def _write_condition(self, name: str, condition: JsonObject) -> None:
        def change(old: JsonObject) -> JsonObject:
            status = old.get("status", {})
            before = find_condition(status.get("conditions"), apiservices.AVAILABLE)
            new = dict(condition)
            if before is not None and before.get("status") == new["status"]:
                new["lastTransitionTime"] = before.get("lastTransitionTime", new["lastTransitionTime"])
            others = [one for one in status.get("conditions", ()) if one.get("type") != apiservices.AVAILABLE]
            return {**old, "status": {**status, "conditions": [*others, new]}}

        try:
            await self._registry.update(Write(RESOURCE, "", name, "status"), change)
        except (ApiStatus, StorageError) as error:
            log.info("condition of the APIService %s: %s", name, error)


def _concerns(change: Change, service: str) -> bool:
    """Whether a change of a Service or an EndpointSlice is about this Service."""
    if change.record.key.resource == "services":
        return change.record.key.name == service
    records = (change.record, change.previous)
    return any(record is not None and record.facts.labels.get(SERVICE_LABEL) == service for record in records)


def _text(status: int, message: str) -> Response:
    """Return an error as text, as Go's http.Error writes it."""
    return text_response(status, f"{message}\n")
