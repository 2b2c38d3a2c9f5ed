"""The use that an object makes of the resources that quotas limit.

Amounts are by the name of a limited resource: `requests.cpu`, `pods`, `count/deployments.apps`.
Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/quota/v1/evaluator/core`, apiserver/pkg/quota/v1/generic.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.pods import ONE, ZERO, Amount, Amounts, parse_amounts, pod_amounts
from bridgehead.apiserver.resources.shared.columns import seconds_of
from bridgehead.apiserver.resources.shared.resource_names import HUGE_PAGES, POD_COMPUTE, is_native

_COMPUTE = ("cpu", "memory", "ephemeral-storage")
# Resources that have a name without `count/`, too.
_PLAIN_COUNTS = frozenset({"configmaps", "resourcequotas", "replicationcontrollers", "secrets"})
_OF_PODS = frozenset({"pods", *_COMPUTE}) | {f"{kind}.{name}" for kind in ("requests", "limits") for name in _COMPUTE}
_OF_SERVICES = frozenset({"services", "services.nodeports", "services.loadbalancers"})
_OF_CLAIMS = frozenset({"persistentvolumeclaims", "requests.storage"})
_CLASS_SUFFIX = ".storageclass.storage.k8s.io/"
_CLASS_SUFFIXES = (f"{_CLASS_SUFFIX}requests.storage", f"{_CLASS_SUFFIX}persistentvolumeclaims")
UNCOUNTED = frozenset({"events", "events.events.k8s.io"})


def counted_resource(name: str) -> str | None:
    """Return the id of the resource whose objects use `name`, such as `pods` for `limits.cpu`; None: nothing does."""
    if name.startswith("count/"):
        counted = name.removeprefix("count/")
        return None if counted in UNCOUNTED else counted
    if name in _PLAIN_COUNTS:
        return name
    if name in _OF_SERVICES:
        return "services"
    if name in _OF_CLAIMS or name.endswith(_CLASS_SUFFIXES):
        return "persistentvolumeclaims"
    if name in _OF_PODS or name.startswith((HUGE_PAGES, "requests.")):
        return "pods"
    return None


def usage_of(resource: str, obj: JsonObject, now: float) -> Amounts:
    """Return what an object of the resource with this id uses. `now` is in seconds since the epoch."""
    count: Amounts = {f"count/{resource}": ONE}
    match resource:
        case "pods":
            return count | _pod_usage(obj, now)
        case "services":
            return count | _service_usage(obj.get("spec", {}))
        case "persistentvolumeclaims":
            return count | _claim_usage(obj)
    if resource in _PLAIN_COUNTS:
        count[resource] = ONE
    return count


def missing_amounts(pod: JsonObject, limited: Iterable[str]) -> str:
    """Return what the containers of a pod must state and do not: `limits.cpu for: a,b; memory for: a`, or ""."""
    required = POD_COMPUTE.intersection(limited)
    missing: dict[str, set[str]] = {}
    spec = pod.get("spec", {})
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        resources = container.get("resources", {})
        stated = _compute_usage(*(parse_amounts(resources.get(kind, {})) for kind in ("requests", "limits")))
        for name in required - stated.keys():
            missing.setdefault(name, set()).add(container.get("name", ""))
    return "; ".join(f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing))


def _pod_usage(pod: JsonObject, now: float) -> Amounts:
    if pod.get("status", {}).get("phase") in ("Failed", "Succeeded"):
        return {}
    meta, spec = pod.get("metadata", {}), pod.get("spec", {})
    deletion = seconds_of(meta.get("deletionTimestamp"))
    # A pod on a lost node must not keep its owner from replacing it.
    if deletion is not None and now > deletion + meta.get("deletionGracePeriodSeconds", 0):
        return {}
    return {"pods": ONE, **_compute_usage(pod_amounts(spec, "requests"), pod_amounts(spec, "limits"))}


def _compute_usage(requests: Amounts, limits: Amounts) -> Amounts:
    usage: Amounts = {}
    for name, amount in requests.items():
        if name in _COMPUTE or name.startswith(HUGE_PAGES):
            usage[name] = amount
            usage[f"requests.{name}"] = amount
        elif not is_native(name):
            usage[f"requests.{name}"] = amount
    for name in _COMPUTE:
        if name in limits:
            usage[f"limits.{name}"] = limits[name]
    return usage


def _service_usage(spec: JsonObject) -> Amounts:
    ports, service_type = spec.get("ports", ()), spec.get("type")
    node_ports = 0
    if service_type == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False:
        node_ports = sum(bool(port.get("nodePort")) for port in ports)
    elif service_type in ("LoadBalancer", "NodePort"):
        node_ports = len(ports)
    return {
        "services": ONE,
        "services.nodeports": Amount(Decimal(node_ports)),
        "services.loadbalancers": ONE if service_type == "LoadBalancer" else ZERO,
    }


def _claim_usage(claim: JsonObject) -> Amounts:
    spec = claim.get("spec", {})
    usage: Amounts = {"persistentvolumeclaims": ONE}
    requests = parse_amounts(spec.get("resources", {}).get("requests", {}))
    if "storage" in requests:
        usage["requests.storage"] = requests["storage"]
    annotations = claim.get("metadata", {}).get("annotations", {})
    storage_class = annotations.get("volume.beta.kubernetes.io/storage-class") or spec.get("storageClassName")
    if storage_class:
        for name in tuple(usage):
            usage[f"{storage_class}{_CLASS_SUFFIX}{name}"] = usage[name]
    return usage
