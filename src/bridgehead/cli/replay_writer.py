"""Writes of a replay: the objects of a plan, through the API of a lab, at their recorded times."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from bridgehead.client import ApiClient
from bridgehead.client.errors import AlreadyExists, ApiError, Invalid, NotFound
from bridgehead.insight.findings import printable
from bridgehead.insight.programmed import Lacking, find_lacking
from bridgehead.insight.recording.rebuilding import MANAGER, Action, Json, Plan, State
from bridgehead.objects import progress
from bridgehead.objects.core import Node
from bridgehead.objects.kinds import (
    ENDPOINT_SLICES,
    LEASES,
    NAMESPACES,
    NODES,
    SERVICE_ACCOUNTS,
    SERVICE_CIDRS,
    SERVICES,
)
from bridgehead.objects.meta import Object, ObjectKey, version_number
from bridgehead.objects.progress import Versions, latest_version

T = TypeVar("T", bound=Object)

_READY_SECONDS = 20.0  # for a namespace's ServiceAccount, or a ServiceCIDR
_PROGRAM_SECONDS = 30.0
_POLL_SECONDS = 0.2
_MOMENT_SECONDS = 0.01
_BATCH = 64


@dataclass
class Written:
    """`refused`: objects that the API server did not take, with its reason. `moved`: changed addresses and ports."""

    refused: dict[str, str] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)


class ReplayWriter:
    """`speed`: recorded seconds of one second; None: without pauses."""

    def __init__(self, client: ApiClient, plan: Plan, speed: float | None) -> None:
        self._client = client
        self._plan = plan
        self._speed = speed
        self._statuses: dict[tuple[str, str, str], Json] = {}
        self.written = Written()

    async def write(self) -> None:
        """Write all objects. Raises ClientError if the API server cannot be reached."""
        for namespace in self._plan.namespaces:
            try:
                await self._client.create(NAMESPACES, {"metadata": {"name": namespace}})
            except AlreadyExists:
                continue
        for namespace in self._plan.namespaces:
            await self._wait_exists(namespace)
        began = time.monotonic()
        for batch in batches(self._plan.actions):
            if self._speed is not None:
                await asyncio.sleep(began + batch[0].at / self._speed - time.monotonic())
            await asyncio.gather(*map(self._write, batch))

    async def _wait_exists(self, namespace: str) -> None:
        """Wait for the namespace's default ServiceAccount, without which it takes no pods."""
        end = time.monotonic() + _READY_SECONDS
        while time.monotonic() < end:
            try:
                await self._client.get(SERVICE_ACCOUNTS, "default", namespace)
                return
            except NotFound:
                await asyncio.sleep(_POLL_SECONDS)

    async def _write(self, action: Action) -> None:
        kind, namespace, name = action.kind, action.namespace, action.name
        try:
            if action.body is None:
                self._statuses.pop((kind.plural, namespace, name), None)
                await self._client.delete(kind, name, namespace, grace_period_seconds=0)
            elif kind is NODES:
                await self._client.patch(kind, name, "", action.body)
            elif kind is SERVICES:
                await self._write_service(action, action.body)
            else:
                await self._apply(action, action.body)
            await self._write_status(action)
            if kind is SERVICE_CIDRS:
                await self._wait_ready(name)
        except NotFound:
            return
        except ApiError as error:
            identity = f"{kind.name} {namespace}/{name}" if namespace else f"{kind.name} {name}"
            self.written.refused[identity] = printable(str(error))

    async def _apply(self, action: Action, body: Json) -> None:
        kind = action.kind
        obj = {"apiVersion": kind.api_version, "kind": kind.name, **body}
        await self._client.patch(kind, action.name, action.namespace, obj, "apply", field_manager=MANAGER)

    async def _write_status(self, action: Action) -> None:
        identity = (action.kind.plural, action.namespace, action.name)
        if action.status is None or self._statuses.get(identity) == action.status:
            return
        patch = {"status": action.status}
        await self._client.patch(action.kind, action.name, action.namespace, patch, subresource="status")
        self._statuses[identity] = action.status

    async def _write_service(self, action: Action, body: Json) -> None:
        """Apply a Service: with its own addresses and ports or, if the lab cannot have them, with others."""
        choices = list(_service_bodies(body))
        for number, (moved, choice) in enumerate(choices, 1):
            try:
                await self._apply(action, choice)
            except Invalid:
                if number == len(choices):
                    raise
                continue
            if moved:
                self.written.moved[str(ObjectKey(action.namespace, action.name))] = moved
            return

    async def _wait_ready(self, name: str) -> None:
        end = time.monotonic() + _READY_SECONDS
        while time.monotonic() < end:
            found = await self._client.request("GET", SERVICE_CIDRS.path("", name))
            conditions = (found.get("status") or {}).get("conditions") or ()
            if any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions):
                return
            await asyncio.sleep(_POLL_SECONDS)

    async def wait_programmed(self) -> list[Lacking]:
        """Wait until every node's proxy has programmed the present objects; return those that have not in time."""
        services = await self._client.list(SERVICES)
        slices = await self._client.list(ENDPOINT_SLICES)
        newest = max((version_number(each.metadata.resource_version) for each in services.items), default=0)
        wanted = Versions(newest, latest_version(slices.items))
        end = time.monotonic() + _PROGRAM_SECONDS
        while True:
            nodes = await self._client.list(NODES)
            leases = await self._client.list(LEASES, progress.NAMESPACE, progress.SELECTOR)
            lacking = find_lacking(nodes.items, leases.items, wanted, time.time(), ObjectKey("", ""))
            if not lacking or time.monotonic() > end:
                return lacking
            await asyncio.sleep(_POLL_SECONDS)

    async def read_state(self, wanted: State) -> tuple[State, list[Node]]:
        """Return what the lab has of the recording's objects, and its nodes."""
        services = await self._client.list(SERVICES)
        slices = await self._client.list(ENDPOINT_SLICES)
        nodes = await self._client.list(NODES)
        state = State(_chosen(services.items, wanted.services), _chosen(slices.items, wanted.slices))
        return state, nodes.items


def batches(actions: Iterable[Action]) -> Iterator[list[Action]]:
    """Yield actions that can be written at the same time: of one kind and moment, each of another object.

    The API server makes concurrent writes durable together.
    """
    batch: list[Action] = []
    names: set[ObjectKey] = set()
    for action in actions:
        key = ObjectKey(action.namespace, action.name)
        if batch and (
            action.kind is not batch[0].kind
            or action.at > batch[0].at + _MOMENT_SECONDS
            or key in names
            or len(batch) == _BATCH
        ):
            yield batch
            batch, names = [], set()
        batch.append(action)
        names.add(key)
    if batch:
        yield batch


def _chosen(objects: Iterable[T], keys: Collection[ObjectKey]) -> dict[ObjectKey, T]:
    return {each.key: each for each in objects if each.key in keys}


def _service_bodies(body: Json) -> Iterable[tuple[str, Json]]:
    """Yield the Service as recorded, then without its node ports, without its cluster IPs, and without both.

    The text names what the lab is to choose.
    """
    spec = body["spec"]
    ports = [{field: value for field, value in port.items() if field != "nodePort"} for port in spec["ports"]]
    without_ports = {field: value for field, value in spec.items() if field != "healthCheckNodePort"}
    without_ports["ports"] = ports
    yield "", body
    yield "node ports", {**body, "spec": without_ports}
    if spec.get("clusterIP") not in (None, "", "None"):
        yield "cluster IP", {**body, "spec": _without_cluster_ips(spec)}
        yield "cluster IP and node ports", {**body, "spec": _without_cluster_ips(without_ports)}


def _without_cluster_ips(spec: Json) -> Json:
    return {field: value for field, value in spec.items() if field not in ("clusterIP", "clusterIPs")}
