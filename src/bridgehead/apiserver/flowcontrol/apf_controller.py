"""The FlowSchemas and PriorityLevelConfigurations in force.

`run` follows the stored objects; without it, `refresh` reads them once. `exempt` and `catch-all` are in force in any
case. Source: apiserver/pkg/util/flowcontrol/apf_controller.go.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

import msgspec

from bridgehead.apiserver.errors import ApiStatus
from bridgehead.apiserver.fieldmanagement.managers import UPDATE, Writer
from bridgehead.apiserver.http.request_info import RequestInfo
from bridgehead.apiserver.http.user import User
from bridgehead.apiserver.metrics.waits import recorded_wait
from bridgehead.apiserver.registry.registry import Registry
from bridgehead.apiserver.registry.write import Write
from bridgehead.apiserver.resource import JsonObject, Resource
from bridgehead.apiserver.resources.flowcontrol import FLOW_SCHEMA_SPECS, PRIORITY_LEVEL_SPECS
from bridgehead.objects.times import format_time
from bridgehead.storage import Overflow, Record, StoreBroken

from .dangling_condition import dangling, with_condition
from .levels import Level, Pool
from .limits import plan_limits
from .matching import FlowSchema, compile_schema, in_order

log = logging.getLogger(__name__)

_GROUP, _VERSION = "flowcontrol.apiserver.k8s.io", "v1"
_CONSUMER = Writer("api-priority-and-fairness-config-consumer-v1", UPDATE, "status")
# Classifications are remembered, this many and of keys with at most so many characters: anybody can invent paths.
_REMEMBERED, _KEY_LENGTH = 1024, 512
# Their requests last as long as the client wants, so they take no seats (kube-apiserver's longRunningFunc).
_LONG_RUNNING = frozenset({"attach", "exec", "log", "portforward", "proxy"})


@dataclass(frozen=True, slots=True)
class Class:
    """The class of a request: its schema, the schema's level, and the headers of the answer."""

    schema: FlowSchema
    level: Level
    headers: tuple[tuple[bytes, bytes], ...]


def is_long_running(info: RequestInfo) -> bool:
    """Whether a request takes no seat. A watch takes one until it has begun."""
    return info.subresource in _LONG_RUNNING or info.verb == "proxy"


class Seat:
    """The seat that one request takes, and the headers that name its class."""

    __slots__ = ("_level", "headers")

    def __init__(self) -> None:
        self._level: Level | None = None
        self.headers: tuple[tuple[bytes, bytes], ...] = ()

    async def take(self, of: Class, user: User, info: RequestInfo) -> None:
        """Take a seat, when one is free. Raises `Overloaded`."""
        self.headers = of.headers
        if is_long_running(info):
            return
        if not of.level.take():
            with recorded_wait():
                await of.level.wait(f"{of.schema.name}/{of.schema.flow(user, info)}")
        self._level = of.level

    def leave(self) -> None:
        """Give the seat back, if the request has one."""
        level, self._level = self._level, None
        if level is not None:
            level.leave()


class FlowControl:
    """Classifies requests by the stored configuration."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._levels: dict[str, Level] = {}
        self._pool = Pool()
        self._schemas: list[FlowSchema] = []
        self._classes: dict[tuple[object, ...], Class] = {}
        self.refresh()

    @property
    def levels(self) -> tuple[Level, ...]:
        return tuple(self._levels.values())

    def classify(self, user: User, info: RequestInfo) -> Class:
        """Return the class of a request."""
        what = info.rule_resource if info.is_resource else info.path
        key = (user.name, user.groups, info.verb, info.group, what, info.namespace, info.is_resource)
        found = self._classes.get(key)
        if found is None:
            found = self._classify(user, info)
            if len(user.name) + len(info.group) + len(what) + len(info.namespace) <= _KEY_LENGTH:
                if len(self._classes) >= _REMEMBERED:
                    self._classes.clear()
                self._classes[key] = found
        return found

    def _classify(self, user: User, info: RequestInfo) -> Class:
        # A user without any group matches no mandatory schema, as in a test; it goes to the last one.
        schema = next((one for one in self._schemas if one.matches(user, info)), self._schemas[-1])
        level = self._levels[schema.level]
        pairs = ((b"x-kubernetes-pf-flowschema-uid", schema.uid), (b"x-kubernetes-pf-prioritylevel-uid", level.uid))
        return Class(schema, level, tuple((name, uid.encode()) for name, uid in pairs if uid))

    def refresh(self) -> None:
        """Read the configuration again. Requests that run or wait keep their seats and turns."""
        levels = {obj["metadata"]["name"]: obj for obj in self._objects("prioritylevelconfigurations")}
        for name, spec in PRIORITY_LEVEL_SPECS.items():
            levels.setdefault(name, {"metadata": {"name": name}, "spec": spec})
        schemas = {obj["metadata"]["name"]: obj for obj in self._objects("flowschemas")}
        for name, spec in FLOW_SCHEMA_SPECS.items():
            schemas.setdefault(name, {"metadata": {"name": name}, "spec": spec})
        limits = plan_limits({name: obj["spec"] for name, obj in levels.items()})
        before, self._levels = self._levels, {}
        for name, obj in levels.items():
            uid = obj["metadata"].get("uid", "")
            level = self._levels[name] = before.get(name) or Level(name, uid, limits[name], self._pool)
            level.uid, level.limits = uid, limits[name]
        self._pool.configure(self._levels.values())
        for name in before.keys() - levels.keys():
            before[name].dissolve()
        compiled = (compile_schema(obj) for obj in schemas.values())
        self._schemas = in_order([schema for schema in compiled if schema.level in self._levels])
        self._classes.clear()

    async def run(self) -> None:
        """Follow the configuration, and write the conditions of FlowSchemas, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow("flowschemas"))
            tasks.create_task(self._follow("prioritylevelconfigurations"))

    async def _follow(self, plural: str) -> None:
        store, resource = self._registry.store, self._resource(plural)
        while True:
            watch = store.watch(resource.id, since=store.revision)
            try:
                await self._changed()
                async for _ in watch:
                    await self._changed()
                return  # the store was closed
            except Overflow:
                continue
            finally:
                watch.close()

    async def _changed(self) -> None:
        self.refresh()
        resource = self._resource("flowschemas")
        schemas = self._registry.store.list(resource.id)
        await asyncio.gather(*(self._write_condition(resource, record) for record in schemas))

    async def _write_condition(self, resource: Resource, record: Record) -> None:
        schema = msgspec.json.decode(record.value)
        level = schema["spec"]["priorityLevelConfiguration"]["name"]
        condition, now = dangling(level, exists=level in self._levels), format_time(self._registry.clock())
        if with_condition(schema, condition, now) is None:
            return

        def change(old: JsonObject) -> JsonObject:
            return with_condition(old, condition, now) or old

        try:
            await self._registry.update(Write(resource, "", record.key.name, "status", _CONSUMER), change)
        except ApiStatus as status:
            if status.code != 404:
                log.warning("cannot write the condition of FlowSchema %s: %s", record.key.name, status.message)
        except StoreBroken as error:
            log.warning("cannot write the condition of FlowSchema %s: %s", record.key.name, error)

    def _objects(self, plural: str) -> list[JsonObject]:
        return [msgspec.json.decode(record.value) for record in self._registry.store.list(f"{plural}.{_GROUP}")]

    def _resource(self, plural: str) -> Resource:
        resource = self._registry.find(_GROUP, _VERSION, plural)
        if resource is None:
            raise LookupError(f"the table has no {plural}")
        return resource
