"""The subresource `eviction` of pods: a delete that PodDisruptionBudgets may refuse.

Source: Kubernetes "API-initiated Eviction", `pkg/registry/core/pod/storage/eviction.go`.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec
from msgspec.structs import replace as with_fields

from bridgehead.apiserver.errors import ApiStatus, bad_request, created
from bridgehead.apiserver.http.request import Request, Response, respond
from bridgehead.apiserver.registry.deletion import DeleteOptions
from bridgehead.apiserver.registry.registry import Registry
from bridgehead.apiserver.registry.request_checks import check_preconditions
from bridgehead.apiserver.registry.write import Write
from bridgehead.apiserver.resource import JsonObject, Resource
from bridgehead.apiserver.resources.shared.conditions import find_condition
from bridgehead.objects.times import format_time

from . import disruption_budgets as budgets
from .write_options import is_dry_run

_CONFLICT = 409
_ATTEMPTS = 20


class Evictions:
    """Evicts pods that admission has let through."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def evict(self, request: Request, resource: Resource, eviction: JsonObject) -> Response:
        """Answer a create of `eviction`, a decoded Eviction. Raises `ApiStatus`."""
        info = request.info
        if eviction.get("metadata", {}).get("name", "") != info.name:
            raise bad_request("name in URL does not match name in Eviction object")
        given = eviction.get("deleteOptions", {})
        preconditions = given.get("preconditions", {})
        options = DeleteOptions(
            grace_seconds=given.get("gracePeriodSeconds"),
            uid=preconditions.get("uid"),
            resource_version=preconditions.get("resourceVersion"),
            policy=given.get("propagationPolicy", ""),
        )
        dry_run = "All" in given.get("dryRun", ()) or is_dry_run(request)
        await self._evict(Write(resource, info.namespace, info.name, dry_run=dry_run), options)
        return respond(created(), 201)

    async def _evict(self, write: Write, options: DeleteOptions) -> None:
        pod = await self._evict_without_budget(write, options)
        if pod is None:
            return
        budget = budgets.only_one(budgets.matching(self._budgets(write.namespace), pod))
        if budget is None or not budgets.spares_the_budget(pod, budget):
            if budget is not None:
                await self._disrupt(budget["metadata"]["name"], write)
            await self._delete(write, options)
            return
        try:
            # The pod may have become ready, and then it counts.
            await self._delete(write, _of_this_version(options, pod))
        except ApiStatus as error:
            if error.code == _CONFLICT and options.resource_version is None:
                raise budgets.still_processed(budget["metadata"]["name"]) from None
            raise

    async def _evict_without_budget(self, write: Write, options: DeleteOptions) -> JsonObject | None:
        """Evict a pod for which budgets do not matter. Return the pod if they do."""
        for attempt in range(_ATTEMPTS):
            record = self._registry.get(write.resource, write.namespace, write.name)
            pod: JsonObject = msgspec.json.decode(record.value)
            if not budgets.may_ignore_budgets(pod):
                return pod
            try:
                # A pending pod may have become ready, and then budgets matter.
                exact = options if budgets.has_ended(pod) else _of_this_version(options, pod)
                await self._delete(write, exact)
                return None
            except ApiStatus as error:
                is_last = attempt == _ATTEMPTS - 1
                if error.code != _CONFLICT or options.resource_version is not None or is_last:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _budgets(self, namespace: str) -> list[JsonObject]:
        return [msgspec.json.decode(record.value) for record in self._registry.store.list(_BUDGETS, namespace)]

    async def _disrupt(self, budget: str, eviction: Write) -> None:
        """Take the disruption of one pod from a budget, by compare-and-swap. Raises a 429 when it has none."""
        resource = self._registry.find("policy", "v1", "poddisruptionbudgets")
        if resource is None:
            raise AssertionError("the table has no PodDisruptionBudgets")

        def change(current: JsonObject) -> JsonObject:
            return budgets.disrupted(current, eviction.name, format_time(self._registry.clock()))

        write = Write(resource, eviction.namespace, budget, "status", dry_run=eviction.dry_run)
        await self._registry.update(write, change)

    async def _delete(self, write: Write, options: DeleteOptions) -> None:
        """Note the reason in the pod's conditions, and delete it. Raises a 409 when a precondition does not hold."""
        if not write.dry_run:

            def change(pod: JsonObject) -> JsonObject:
                check_preconditions(write, pod, options)
                return _condemned(pod, format_time(self._registry.clock()))

            record = await self._registry.update(with_fields(write, subresource="status", writer=None), change)
            if options.resource_version is not None:
                options = replace(options, resource_version=str(record.revision))
        await self._registry.delete(write, options)


_BUDGETS = "poddisruptionbudgets.policy"


def _of_this_version(options: DeleteOptions, pod: JsonObject) -> DeleteOptions:
    if options.resource_version is not None:
        return options
    return replace(options, resource_version=pod["metadata"]["resourceVersion"])


def _condemned(pod: JsonObject, now: str) -> JsonObject:
    """Return the pod with the condition DisruptionTarget."""
    status = pod.get("status", {})
    conditions = status.get("conditions") or []
    current = find_condition(conditions, "DisruptionTarget") or {}
    wanted: JsonObject = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastTransitionTime": current.get("lastTransitionTime", now) if current.get("status") == "True" else now,
    }
    if generation := pod["metadata"].get("generation"):
        wanted["observedGeneration"] = generation
    others = [one for one in conditions if one.get("type") != "DisruptionTarget"]
    return {**pod, "status": {**status, "conditions": [*others, wanted]}}
