"""Creates and deletes a controller's pods, with Events.

Called by the ReplicaSet and DaemonSet controllers. Source: Kubernetes `pkg/controller/controller_utils.go`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec

from bridgehead.client import ApiClient, EventRecorder
from bridgehead.client.errors import ApiError, ClientError, Conflict, NotFound
from bridgehead.controllers.adoption import controller_reference
from bridgehead.objects.core import Pod
from bridgehead.objects.kinds import PODS, Kind
from bridgehead.objects.meta import Object, PodTemplate

Owner = TypeVar("Owner", bound=Object)

# Requests that one reconcile sends at the same time. The client has more connections, which all controllers share.
REQUESTS_AT_ONCE = 50


def pod_from_template(kind: Kind[Owner], owner: Owner, template: PodTemplate, prefix: str = "") -> dict[str, Any]:
    """Return the pod to create for `owner`: with a generated name, the template's labels, and an owner reference.

    `prefix`: begin of the name; the owner's name and a dash by default.
    """
    metadata: dict[str, Any] = {
        "generateName": prefix or f"{owner.metadata.name}-",
        "namespace": owner.metadata.namespace,
        "ownerReferences": [msgspec.to_builtins(controller_reference(kind, owner))],
    }
    if template.metadata.labels:
        metadata["labels"] = template.metadata.labels
    if template.metadata.annotations:
        metadata["annotations"] = template.metadata.annotations
    if template.metadata.finalizers:
        metadata["finalizers"] = list(template.metadata.finalizers)
    return {"metadata": metadata, "spec": template.spec}


def is_namespace_terminating(error: ClientError) -> bool:
    """Whether a creation was rejected because its namespace is being deleted, so that a retry is useless."""
    if not isinstance(error, ApiError):
        return False
    causes = error.details.get("causes") or ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)


async def slow_start(count: int, create: Callable[[int], Awaitable[None]]) -> tuple[int, ClientError | None]:
    """Call `create(0)` .. `create(count - 1)` in batches of 1, 2, 4 ... 50, concurrently within a batch.

    Stop after a batch with a failure, so that many pods that would all be rejected (by a quota, or for an invalid
    template) cost one request. Return the number of successful calls and the first error.
    """
    done = successes = 0
    size = min(1, count)
    while size:
        results = await asyncio.gather(*(create(index) for index in range(done, done + size)), return_exceptions=True)
        errors = [result for result in results if isinstance(result, BaseException)]
        successes += size - len(errors)
        for error in errors:
            if not isinstance(error, ClientError):
                raise error
            return successes, error
        done += size
        size = min(2 * size, REQUESTS_AT_ONCE, count - done)
    return successes, None


async def all_of(calls: Sequence[Callable[[], Awaitable[None]]]) -> ClientError | None:
    """Make all calls, some concurrently; return the first error."""
    failure = None
    for begin in range(0, len(calls), REQUESTS_AT_ONCE):
        batch = (call() for call in calls[begin : begin + REQUESTS_AT_ONCE])
        for result in await asyncio.gather(*batch, return_exceptions=True):
            if isinstance(result, ClientError):
                failure = failure or result
            elif isinstance(result, BaseException):
                raise result
    return failure


class PodControl(Generic[Owner]):
    """Creates and deletes pods for owners of one kind."""

    def __init__(self, client: ApiClient, recorder: EventRecorder, kind: Kind[Owner]) -> None:
        self._client = client
        self._recorder = recorder
        self._kind = kind

    async def create(self, owner: Owner, template: PodTemplate, prefix: str = "") -> Pod:
        """Create a pod whose name begins with `prefix`. Record an Event, also for a failure. Raises ClientError."""
        body = pod_from_template(self._kind, owner, template, prefix)
        try:
            pod = await self._client.create(PODS, body, owner.metadata.namespace)
        except ClientError as error:
            if not is_namespace_terminating(error):
                self._recorder.record(owner, type="Warning", reason="FailedCreate", message=f"Error creating: {error}")
            raise
        self._recorder.record(
            owner, type="Normal", reason="SuccessfulCreate", message=f"Created pod: {pod.metadata.name}"
        )
        return pod

    async def delete(self, owner: Owner, pod: Pod) -> bool:
        """Delete a pod and return whether it was there. Record an Event, also for a failure. Raises ClientError."""
        try:
            await self._client.delete(PODS, pod.metadata.name, pod.metadata.namespace, uid=pod.metadata.uid)
        except (NotFound, Conflict):
            return False  # the pod is gone, or another pod has its name
        except ClientError as error:
            self._recorder.record(owner, type="Warning", reason="FailedDelete", message=f"Error deleting: {error}")
            raise
        self._recorder.record(
            owner, type="Normal", reason="SuccessfulDelete", message=f"Deleted pod: {pod.metadata.name}"
        )
        return True

    async def delete_all(
        self, owner: Owner, pods: Sequence[Pod], not_deleted: Callable[[Pod], None]
    ) -> ClientError | None:
        """Delete all `pods`, some concurrently; call `not_deleted` for those that failed or were gone already.

        Return the first error.
        """

        async def delete(pod: Pod) -> None:
            try:
                deleted = await self.delete(owner, pod)
            except ClientError:
                not_deleted(pod)
                raise
            if not deleted:
                not_deleted(pod)

        return await all_of([partial(delete, pod) for pod in pods])
