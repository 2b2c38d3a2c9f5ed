"""The decisions about an eviction that depend on PodDisruptionBudgets. Called by `evictions`.

Pure: no I/O, no clock, no randomness. Objects are decoded JSON.
Source: Kubernetes `pkg/registry/core/pod/storage/eviction.go`.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bridgehead.apiserver.errors import ApiStatus
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared.conditions import find_condition
from bridgehead.objects.meta import LabelSelector
from bridgehead.objects.selectors import compile_selector

# Evictions of one budget that its controller has not noticed yet.
_MAX_DISRUPTED_PODS = 2000
_CAUSE = "DisruptionBudget"
_VIOLATED = "Cannot evict pod as it would violate the pod's disruption budget."
_RETRY_SECONDS = 10


def has_ended(pod: JsonObject) -> bool:
    """Whether the pod is disrupted already: it has finished or is being deleted."""
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed") or "deletionTimestamp" in pod["metadata"]


def may_ignore_budgets(pod: JsonObject) -> bool:
    return has_ended(pod) or pod.get("status", {}).get("phase") == "Pending"


def matching(budgets: Iterable[JsonObject], pod: JsonObject) -> list[JsonObject]:
    """Return those budgets of the pod's namespace that select the pod; an invalid selector selects nothing."""
    labels = pod["metadata"].get("labels") or {}
    found = []
    for budget in budgets:
        selector = budget.get("spec", {}).get("selector")
        try:
            compiled = compile_selector(None if selector is None else msgspec.convert(selector, LabelSelector))
        except ValueError:
            continue
        if compiled.matches(labels):
            found.append(budget)
    return found


def only_one(budgets: list[JsonObject]) -> JsonObject | None:
    """Return the budget of a pod, None without one. Raises a 500 for several."""
    if len(budgets) > 1:
        message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise ApiStatus(500, "", message)
    return budgets[0] if budgets else None


def spares_the_budget(pod: JsonObject, budget: JsonObject) -> bool:
    """Whether the pod may go without a disruption of the budget, because it is not healthy anyway."""
    ready = find_condition(pod.get("status", {}).get("conditions"), "Ready")
    if ready is not None and ready.get("status") == "True":
        return False
    if budget.get("spec", {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status", {})
    desired: int = status.get("desiredHealthy", 0)
    current: int = status.get("currentHealthy", 0)
    return 0 < desired <= current


def disrupted(budget: JsonObject, pod_name: str, now: str) -> JsonObject:
    """Return the budget with one disruption less, that of this pod at `now` (RFC 3339).

    Raises a 429 when the budget allows none or is not processed yet, a 403 when its status makes no sense.
    """
    name, status = budget["metadata"]["name"], budget.get("status", {})
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise still_processed(name)
    allowed: int = status.get("disruptionsAllowed", 0)
    pods: JsonObject = status.get("disruptedPods", {})
    if allowed < 0:
        raise _forbidden(name, "pdb disruptions allowed is negative")
    if len(pods) > _MAX_DISRUPTED_PODS:
        raise _forbidden(name, "DisruptedPods map too big - too many evictions not confirmed by PDB controller")
    if allowed == 0:
        raise _too_many_requests(_refusal(name, status))
    changed = {**status, "disruptionsAllowed": allowed - 1, "disruptedPods": {**pods, pod_name: now}}
    if allowed == 1:
        changed["conditions"] = _without_disruptions(status, now)
    return {**budget, "status": changed}


def _without_disruptions(status: JsonObject, now: str) -> list[JsonObject]:
    conditions = status.get("conditions") or []
    current = find_condition(conditions, "DisruptionAllowed") or {}
    wanted = {
        "type": "DisruptionAllowed",
        "status": "False",
        "observedGeneration": status.get("observedGeneration", 0),
        "lastTransitionTime": current.get("lastTransitionTime", now) if current.get("status") == "False" else now,
        "reason": "InsufficientPods",
        "message": "",
    }
    return [*(one for one in conditions if one.get("type") != "DisruptionAllowed"), wanted]


def _refusal(name: str, status: JsonObject) -> str:
    condition = find_condition(status.get("conditions"), "DisruptionAllowed") or {}
    reason, why = condition.get("reason"), condition.get("message") if condition.get("status") == "False" else ""
    desired, current = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
    # The counts mean nothing while the controller fails.
    if why and reason == "SyncFailed":
        return f"The disruption budget {name} does not allow evicting pods currently because it failed sync: {why}"
    if current <= desired:
        return f"The disruption budget {name} needs {desired} healthy pods and has {current} currently"
    if why:
        return f"The disruption budget {name} does not allow evicting pods currently ({reason}): {why}"
    return f"The disruption budget {name} does not allow evicting pods currently"


def still_processed(name: str) -> ApiStatus:
    """The 429 for a budget whose status does not count yet."""
    return _too_many_requests(f"The disruption budget {name} is still being processed by the server.", _RETRY_SECONDS)


def _too_many_requests(cause: str, retry_after_seconds: int = 0) -> ApiStatus:
    details: JsonObject = {"causes": [{"reason": _CAUSE, "message": cause}]}
    if retry_after_seconds:
        details["retryAfterSeconds"] = retry_after_seconds
    return ApiStatus(429, "TooManyRequests", _VIOLATED, details)


def _forbidden(name: str, why: str) -> ApiStatus:
    cause = f"The disruption budget {name} does not allow evicting pods currently: {why}"
    details = {
        "name": name,
        "group": "policy",
        "kind": "poddisruptionbudget",
        "causes": [{"reason": _CAUSE, "message": cause}],
    }
    return ApiStatus(403, "Forbidden", f'poddisruptionbudget.policy "{name}" is forbidden: {why}', details)
