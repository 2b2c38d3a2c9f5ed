"""Requests and limits of a pod as a whole.

Pure: no I/O, no clock, no randomness. Source: Kubernetes component-helpers/resource (`PodRequests`, `PodLimits`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from .core import Container, PodSpec, ResourceRequirements
from .quantities import milli_value, whole_value

Quantities = Mapping[str, str | int | float]


def amount(resource: str, value: str | int | float) -> int:
    """Return an amount: CPU in thousandths, other resources in whole units."""
    return milli_value(value) if resource == "cpu" else whole_value(value)


def amounts(quantities: Quantities) -> Counter[str]:
    """Return the amounts of resources, by name."""
    return Counter({resource: amount(resource, value) for resource, value in quantities.items()})


def pod_requests(spec: PodSpec, defaults: Mapping[str, int] | None = None) -> Counter[str]:
    """Return the requests of a pod: the sum of its containers, or those of an init container where they are larger.

    Requests of the pod as a whole replace this sum; the overhead of its RuntimeClass is added. `defaults` replace
    missing requests of a container.
    """
    if not defaults and not spec.overhead and not any(one.requests for one in _declared(spec)):
        return Counter()  # as for most pods
    total = _sum(spec, lambda one: Counter({**(defaults or {}), **amounts(one.resources.requests)}))
    if spec.resources is not None:
        total = Counter({**total, **amounts(spec.resources.requests)})
    total.update(amounts(spec.overhead))
    return total


def pod_limits(spec: PodSpec) -> Counter[str]:
    """Return the limits of a pod, summed as its requests are. A container without a limit adds nothing to the sum."""
    total = _sum(spec, lambda one: amounts(one.resources.limits))
    if spec.resources is not None:
        total = Counter({**total, **amounts(spec.resources.limits)})
    total.update({name: value for name, value in amounts(spec.overhead).items() if total[name]})
    return total


def pod_ceiling(spec: PodSpec, resource: str) -> int | None:
    """Return the limit of a resource that all containers have together, None for none.

    A resource is limited if the pod as a whole or each of its containers has a limit of it. Source: kubelet's
    `ResourceConfigForPod`.
    """
    whole = spec.resources.limits if spec.resources is not None else {}
    declared = [one.resources.limits.get(resource, 0) for one in (*spec.init_containers, *spec.containers)]
    is_limited = bool(whole.get(resource)) or all(one and amount(resource, one) for one in declared)
    return (pod_limits(spec)[resource] or None) if is_limited else None


def _declared(spec: PodSpec) -> Iterator[ResourceRequirements]:
    """Yield the resources of the containers, and of the pod as a whole if it has any."""
    if spec.resources is not None:
        yield spec.resources
    for container in (*spec.containers, *spec.init_containers):
        yield container.resources


def _sum(spec: PodSpec, of: Callable[[Container], Counter[str]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for container in spec.containers:
        total.update(of(container))
    sidecars: Counter[str] = Counter()
    peak: Counter[str] = Counter()
    for container in spec.init_containers:
        if container.is_sidecar:
            sidecars.update(of(container))
            peak |= sidecars
        else:
            peak |= of(container) + sidecars
    total.update(sidecars)
    return total | peak
