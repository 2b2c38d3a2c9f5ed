"""Writes of a replay: the objects of a plan, through the API of a lab, at their recorded times."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from bridgehead.client import ApiClient
from bridgehead.client.errors import AlreadyExists, ApiError, Invalid, NotFound
from bridgehead.insight.findings import printable
from bridgehead.insight.recording.replay_plan import Action, Plan
from bridgehead.insight.recording.replayed_objects import Json
from bridgehead.insight.recording.stand_ins import recorded_addresses
from bridgehead.objects.kinds import (
    NAMESPACES,
    NODES,
    PODS,
    SERVICE_ACCOUNTS,
    SERVICE_CIDRS,
    SERVICES,
)
from bridgehead.objects.meta import ObjectKey

_READY_SECONDS = 20.0  # for a namespace's ServiceAccount, or a ServiceCIDR
_ADDRESS_SECONDS = 30.0  # for the address of a stand-in
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
        self._bodies: dict[tuple[str, str, str], Json] = {}  # as written last
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
        identity = (kind.plural, namespace, name)
        try:
            if action.body is None:
                await self._client.delete(kind, name, namespace, grace_period_seconds=action.grace)
                if not action.grace:
                    self._bodies.pop(identity, None)
                    self._statuses.pop(identity, None)
            else:
                await self._write_body(action, action.body)
                await self._write_status(action)
            if kind is SERVICE_CIDRS:
                await self._wait_ready(name)
        except NotFound:
            return
        except ApiError as error:
            text = f"{kind.name} {namespace}/{name}" if namespace else f"{kind.name} {name}"
            self.written.refused[text] = printable(str(error))

    async def _write_body(self, action: Action, body: Json) -> None:
        """Write an object: a Service with its own addresses and ports or, if the lab cannot have them, with others."""
        if action.kind is not SERVICES:
            await self._create_or_change(action, await self._with_addresses(action, body))
            return
        choices = list(_service_bodies(body))
        for number, (moved, choice) in enumerate(choices, 1):
            try:
                await self._create_or_change(action, choice)
            except Invalid:
                if number == len(choices):
                    raise
                continue
            if moved:
                self.written.moved[str(ObjectKey(action.namespace, action.name))] = moved
            return

    async def _create_or_change(self, action: Action, body: Json) -> None:
        kind, namespace, name = action.kind, action.namespace, action.name
        identity = (kind.plural, namespace, name)
        before = self._bodies.get(identity, {} if kind is NODES else None)
        if before is None:
            await self._client.create(kind, body, namespace)
        elif patch := merge_patch(before, body):
            await self._client.patch(kind, name, namespace, patch)
        self._bodies[identity] = body

    async def _with_addresses(self, action: Action, body: Json) -> Json:
        """Return an EndpointSlice with the addresses of the stand-ins, which are waited for."""
        if not any(action.pods):
            return body
        endpoints = []
        for endpoint, pod in zip(body["endpoints"], action.pods, strict=True):
            addresses = () if pod is None else await self._addresses(pod, endpoint.get("addresses"))
            endpoints.append({**endpoint, "addresses": addresses} if addresses else endpoint)
        return {**body, "endpoints": endpoints}

    async def _addresses(self, key: ObjectKey, recorded: object) -> list[str]:
        """Return the addresses that a stand-in has for recorded ones; (): it has none in time, or none of a family."""
        end = time.monotonic() + _ADDRESS_SECONDS
        while time.monotonic() < end:
            try:
                pod = await self._client.get(PODS, key.name, key.namespace)
            except NotFound:
                break
            if pod.status.pod_ips:
                found = recorded_addresses((pod,))
                return [ip for ip, each in found.items() if isinstance(recorded, list) and each in recorded]
            await asyncio.sleep(_POLL_SECONDS)
        return []

    async def _write_status(self, action: Action) -> None:
        identity = (action.kind.plural, action.namespace, action.name)
        if action.status is None or self._statuses.get(identity) == action.status:
            return
        patch = {"status": action.status}
        await self._client.patch(action.kind, action.name, action.namespace, patch, action.patch, "status")
        self._statuses[identity] = action.status

    async def _wait_ready(self, name: str) -> None:
        end = time.monotonic() + _READY_SECONDS
        while time.monotonic() < end:
            found = await self._client.request("GET", SERVICE_CIDRS.path("", name))
            conditions = (found.get("status") or {}).get("conditions") or ()
            if any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions):
                return
            await asyncio.sleep(_POLL_SECONDS)


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


def merge_patch(before: Json, after: Json) -> Json:
    """Return the JSON merge patch (RFC 7386) from one object to another; empty if they are equal."""
    patch: Json = dict.fromkeys(before.keys() - after.keys())
    for name, value in after.items():
        old = before.get(name)
        if isinstance(old, dict) and isinstance(value, dict):
            if inner := merge_patch(old, value):
                patch[name] = inner
        elif name not in before or old != value:
            patch[name] = value
    return patch


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
