"""Carries out preemptions: deletes the victims, and keeps their room for the pod that is nominated to the node.

Owned by `scheduler`; `preemption` decides. A nomination counts for pods of the same or a lower priority until the
pod has a node, is deleted or is nominated elsewhere. Nominations survive a restart, as they are in the pods' status.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence

from bridgehead.client import ApiClient, EventRecorder
from bridgehead.client.errors import Conflict, NotFound
from bridgehead.controllers.pod_status import disruption, patch_pod_status
from bridgehead.controllers.shared_informers import Informers
from bridgehead.objects.core import Pod
from bridgehead.objects.kinds import POD_DISRUPTION_BUDGETS, PODS

from .cluster_state import PodFacts
from .filters import Reason
from .node_filters import NodeFilters, Nomination, priority_of
from .preemption import (
    BY_SCHEDULER,
    DISRUPTION_MESSAGE,
    Preemption,
    plan_preemption,
)


class Preemptor:
    """`clock` returns seconds since the epoch."""

    def __init__(
        self, client: ApiClient, informers: Informers, recorder: EventRecorder, clock: Callable[[], float]
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._clock = clock
        self._budgets = informers.get(POD_DISRUPTION_BUDGETS)
        self._nominated: dict[str, Nomination] = {}  # by uid

    async def wait_synced(self) -> None:
        await self._budgets.wait_synced()

    def observe(self, pod: Pod) -> None:
        """A pod without a node, whose status may have a nomination: by an earlier process, or before it had a node."""
        name = pod.status.nominated_node_name
        if name and pod.metadata.uid not in self._nominated:
            self._nominated[pod.metadata.uid] = Nomination(PodFacts.of(pod), name)

    def forget(self, uid: str) -> None:
        self._nominated.pop(uid, None)

    def nominated_node(self, uid: str) -> str:
        """Return the node to which a pod is nominated, "" without one."""
        nomination = self._nominated.get(uid)
        return nomination.node_name if nomination is not None else ""

    @property
    def nominations(self) -> Iterable[Nomination]:
        return self._nominated.values()

    def plan(self, filters: NodeFilters, refused: Mapping[str, Sequence[Reason]]) -> Preemption:
        """Choose victims for the pod of `filters`. The nomination counts at once."""
        facts, budgets = filters.facts, list(self._budgets.items())
        uid = facts.pod.metadata.uid
        preemption = plan_preemption(
            facts, filters.nodes, refused, budgets, filters.refusals_in_state, self.nominated_node(uid)
        )
        if preemption.node_name:
            self._nominated[uid] = Nomination(facts, preemption.node_name)
        elif preemption.is_eligible:
            self.forget(uid)
        return preemption

    async def carry_out(self, pod: Pod, preemption: Preemption) -> None:
        """Delete the victims, and withdraw nominations of pods of lower priority to the node. Raises ClientError."""
        withdrawn = [
            uid
            for uid, other in self._nominated.items()
            if other.node_name == preemption.node_name and priority_of(other.facts.pod) < priority_of(pod)
        ]
        lesser = [self._nominated.pop(uid).facts.pod for uid in withdrawn]
        await asyncio.gather(
            *(self._evict(victim.pod, pod, preemption.node_name) for victim in preemption.victims),
            *(self._withdraw(other) for other in lesser),
        )

    async def _evict(self, victim: Pod, pod: Pod, node_name: str) -> None:
        if victim.is_terminating:
            return
        meta = victim.metadata
        with contextlib.suppress(NotFound, Conflict):  # it is gone already
            condition = disruption(BY_SCHEDULER, DISRUPTION_MESSAGE, self._clock())
            await patch_pod_status(self._client, victim, {"conditions": [condition]})
            await self._client.delete(PODS, meta.name, meta.namespace, uid=meta.uid)
            message = f"Preempted by pod {pod.metadata.uid} on node {node_name}"
            self._recorder.record(victim, type="Normal", reason="Preempted", message=message)

    async def _withdraw(self, pod: Pod) -> None:
        with contextlib.suppress(NotFound, Conflict):
            await patch_pod_status(self._client, pod, {"nominatedNodeName": None})
