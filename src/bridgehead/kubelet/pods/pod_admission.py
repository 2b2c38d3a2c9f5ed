"""The decision whether this node takes a pod, made once for each pod before anything is made for it.

Called by the pod worker. `unsupported_fields` and `node_fit` decide. A critical pod for which there is no room makes
other pods end first (`preemption`). Source: kubelet's `predicateAdmitHandler`.
"""

from __future__ import annotations

import asyncio
import contextlib

from bridgehead.client.errors import ClientError
from bridgehead.kubelet.containers.context import PodContext
from bridgehead.objects.core import Node, Pod
from bridgehead.objects.kinds import NODES

from .node_fit import affinity_refusal, find_shortages, ports_refusal, taint_refusal
from .preemption import NoVictims, choose_victims
from .static_manifest import is_critical
from .unsupported_fields import admission_refusal

_OUT_OF_USERS = "OutOfUserNamespaces", "All ranges of users for pods with hostUsers: false are in use on this node"


class PodAdmission:
    """Owns the pod's place in `node.admitted`, the pods whose requests and ports count."""

    def __init__(self, context: PodContext) -> None:
        self._context = context
        if self._runs_already():
            context.node.admitted.add(context.pod.metadata.uid)

    async def find_refusal(self) -> tuple[str, str] | None:
        """Return (reason, message) for a pod that the node rejects, else None.

        Other pods that had to end for it have ended then. A pod that runs already is not asked about again.
        """
        node, pod = self._context.node, self._context.pod
        if self._runs_already():
            return None if node.users.claim(pod) else _OUT_OF_USERS
        if refusal := admission_refusal(
            pod, has_app_armor=node.has_app_armor, has_user_namespaces=node.users.are_supported
        ):
            return refusal
        await node.pods_listed()  # a static pod starts earlier
        fit = await self._find_fitting_node()
        # No step waits from here on: two pods must not be given the same room.
        others = self.running_others()
        mismatch = (
            (affinity_refusal(pod, fit) if fit is not None else None)
            or ports_refusal(pod, others)
            or (taint_refusal(pod, fit) if fit is not None else None)
        )
        shortages = find_shortages(pod, others, node.allocatable)
        if shortages and not is_critical(pod):
            return shortages[0].refusal
        if mismatch is not None:
            return mismatch
        try:
            victims = choose_victims(pod, others, shortages)
        except NoVictims as error:
            text = "Unexpected error while attempting to recover from admission failure"
            return "UnexpectedAdmissionError", f"{text}: preemption: error finding a set of pods to preempt: {error}"
        if not node.users.claim(pod):
            return _OUT_OF_USERS
        node.admitted.add(pod.metadata.uid)
        await asyncio.gather(*(node.preempt(victim.metadata.uid) for victim in victims))
        return None

    def release(self) -> None:
        """Give back the pod's place: its resources are released."""
        uid = self._context.pod.metadata.uid
        self._context.node.admitted.discard(uid)
        self._context.node.waiting_resizes.pop(uid, None)

    def running_others(self) -> list[Pod]:
        """Return the other pods whose requests and ports count."""
        node, uid = self._context.node, self._context.pod.metadata.uid
        return [
            pod
            for pod in node.pods()
            if pod.metadata.uid != uid and pod.metadata.uid in node.admitted and not pod.is_finished
        ]

    def _runs_already(self) -> bool:
        return self._context.pod.status.phase not in ("", "Pending") or self._context.sandbox is not None

    async def _find_fitting_node(self) -> Node | None:
        """Return the Node as last observed, None before the registration.

        For a pod that does not fit that Node, it is fetched: the scheduler may know labels and taints that this kubelet
        has yet to see.
        """
        context = self._context
        found = context.node.find_node()
        if found is not None and (affinity_refusal(context.pod, found) or taint_refusal(context.pod, found)):
            with contextlib.suppress(ClientError):  # a static pod does not wait for the API server
                return await context.node.client.get(NODES, found.metadata.name)
        return found
