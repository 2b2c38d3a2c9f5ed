"""Writes of a replay: the objects of a plan, through the API of a lab, at their recorded times."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from bridgehead.client import ApiClient
from bridgehead.client.errors import AlreadyExists, ApiError, Invalid, NotFound
from bridgehead.insight.findings import printable
from bridgehead.insight.programmed import Lacking, count_pending, find_lacking
from bridgehead.insight.recording.comparison import with_recorded_addresses
from bridgehead.insight.recording.rebuilding import Action, Plan, State
from bridgehead.insight.recording.replayed_objects import Json
from bridgehead.insight.recording.stand_ins import ADDRESSES_ANNOTATION, recorded_addresses
from bridgehead.objects import progress
from bridgehead.objects.core import Node, Pod
from bridgehead.objects.endpoint_slices import EndpointSlice
from bridgehead.objects.kinds import (
    ENDPOINT_SLICES,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    SERVICE_ACCOUNTS,
    SERVICE_CIDRS,
    SERVICES,
)
from bridgehead.objects.meta import ObjectKey, version_number
from bridgehead.objects.progress import Versions, latest_version

_READY_SECONDS = 20.0  # for a namespace's ServiceAccount, or a ServiceCIDR
_PROGRAM_SECONDS = 30.0
_ADDRESS_SECONDS = 30.0  # for the address of a stand-in
_SETTLE_SECONDS = 90.0  # for all stand-ins, and the EndpointSlices for them
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

    async def wait_settled(self) -> list[str]:
        """Wait until all stand-ins are as recorded and their EndpointSlices are written; return what lacks in time."""
        end = time.monotonic() + _SETTLE_SECONDS
        while True:
            stand_ins = await self._stand_ins()
            lacking = [
                f"pod {key} does not run as recorded"
                for key, is_ready in sorted(self._plan.pods.items())
                if f"Pod {key}" not in self.written.refused
                and ((pod := stand_ins.get(key)) is None or not pod.status.pod_ips or pod.is_ready != is_ready)
            ]
            lacking += await self._pending_services(stand_ins.values())
            if not lacking or time.monotonic() > end:
                return lacking
            await asyncio.sleep(_POLL_SECONDS)

    async def _stand_ins(self) -> dict[ObjectKey, Pod]:
        pods = await self._client.list(PODS, field_selector="spec.nodeName!=")
        return {pod.key: pod for pod in pods.items if ADDRESSES_ANNOTATION in pod.metadata.annotations}

    async def _pending_services(self, stand_ins: Collection[Pod]) -> list[str]:
        services = [each for each in (await self._client.list(SERVICES)).items if each.key in self._plan.final.services]
        slices: dict[ObjectKey | None, list[EndpointSlice]] = {}
        for slice_ in (await self._client.list(ENDPOINT_SLICES)).items:
            slices.setdefault(slice_.service_key, []).append(slice_)
        nodes = (await self._client.list(NODES)).items
        lacking = []
        for service in services:
            selector, key = service.spec.selector.items(), service.key
            pods = [
                pod
                for pod in stand_ins
                if pod.metadata.namespace == key.namespace and selector <= pod.metadata.labels.items()
            ]
            if number := count_pending(service, pods, None, slices.get(key, ()), nodes):
                lacking.append(f"EndpointSlices of {key} lack {number} changes")
        return lacking

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

    async def read_state(self) -> tuple[State, list[Node], dict[str, str]]:
        """Return the recording's Services as the lab has them, with recorded addresses of endpoints; and its nodes.

        The last value is the recorded address for each address of a stand-in.
        """
        services = await self._client.list(SERVICES)
        slices = await self._client.list(ENDPOINT_SLICES)
        nodes = await self._client.list(NODES)
        addresses = recorded_addresses((await self._stand_ins()).values())
        state = State(
            {each.key: each for each in services.items if each.key in self._plan.final.services},
            {each.key: each for each in slices.items if each.service_key in self._plan.final.services},
        )
        return with_recorded_addresses(state, addresses), nodes.items, addresses


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
