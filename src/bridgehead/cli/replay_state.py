"""The state of a lab in which a recording was replayed: whether all is there, and what there is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection

from bridgehead.client import ApiClient
from bridgehead.insight.programmed import Lacking, count_pending, find_lacking
from bridgehead.insight.recording.comparison import with_recorded_addresses
from bridgehead.insight.recording.replay_plan import Plan, State
from bridgehead.insight.recording.stand_ins import ADDRESSES_ANNOTATION, recorded_addresses
from bridgehead.objects import progress
from bridgehead.objects.core import Node, Pod
from bridgehead.objects.endpoint_slices import EndpointSlice
from bridgehead.objects.kinds import ENDPOINT_SLICES, LEASES, NODES, PODS, SERVICES
from bridgehead.objects.meta import ObjectKey, version_number
from bridgehead.objects.progress import Versions, latest_version

_SETTLE_SECONDS = 90.0  # for all stand-ins, and the EndpointSlices for them
_PROGRAM_SECONDS = 30.0
_POLL_SECONDS = 0.2


class ReplayedState:
    """`plan`: the one that was written."""

    def __init__(self, client: ApiClient, plan: Plan) -> None:
        self._client = client
        self._plan = plan

    async def wait_settled(self, refused: Collection[str]) -> list[str]:
        """Wait until all stand-ins are as recorded and their EndpointSlices are written; return what lacks in time.

        `refused`: objects that the API server did not take, `Pod namespace/name`.
        """
        end = time.monotonic() + _SETTLE_SECONDS
        while True:
            stand_ins = await self._stand_ins()
            lacking = [
                f"pod {key} does not run as recorded"
                for key, is_ready in sorted(self._plan.pods.items())
                if f"Pod {key}" not in refused
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

    async def read(self) -> tuple[State, list[Node], dict[str, str]]:
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
