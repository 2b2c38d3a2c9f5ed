"""Troubles of a Service that its user can fix: a selector that matches nothing, a targetPort that no pod has.

Used by `service_warnings_controller`, which makes Events of them, and by `bridgehead status`, which counts those. The
reasons are those of `bridgehead doctor`, which knows more causes.
Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from bridgehead.objects.core import Pod, Service, ServicePort
from bridgehead.objects.endpoint_slices import EndpointSlice

from .endpoint_pods import container_ports, is_headless, resolve_port

COMPONENT: Final = "service-warnings-controller"  # source of the Events

NO_SELECTOR: Final = "NoSelectorNoEndpoints"
NO_PODS: Final = "SelectorMatchesNothing"
NO_PORT: Final = "TargetPortNameMissing"
NO_BALANCER: Final = "NoLoadBalancer"

_LONGEST = 200  # characters of a selector or of a list of names in a message


class Trouble(NamedTuple):
    """`reason` and `message` of the Event; a Service has at most one trouble of each reason."""

    reason: str
    message: str


def find_troubles(service: Service, pods: Iterable[Pod], slices: Sequence[EndpointSlice]) -> tuple[Trouble, ...]:
    """Return the troubles of a Service.

    `pods`: those that it selects and that have not finished, whether ready or not; `slices`: its EndpointSlices with
    endpoints, also those that users wrote. A Service that publishes not-ready addresses belongs to a workload that may
    well have no pods, and is left alone.
    """
    spec = service.spec
    if spec.type == "ExternalName" or service.metadata.deletion_timestamp is not None:
        return ()
    found = [_unserved_load_balancer(service)]
    if not spec.publish_not_ready_addresses:
        if spec.selector:
            found.append(_bad_selection(service, iter(pods), slices))
        elif not slices and not is_headless(service):
            found.append(_no_selector(service))
    return tuple(trouble for trouble in found if trouble is not None)


def event_name(service: Service, reason: str) -> str:
    """Return the name of the Event of a trouble, which is the same in every process and after every restart."""
    digest = hashlib.sha256(f"{service.metadata.uid}\n{reason}".encode()).hexdigest()
    return f"{service.metadata.name}.{digest[:16]}"


def waits_for_load_balancer(service: Service) -> bool:
    """Whether the Service is to have a load balancer's address and has none."""
    return (
        service.spec.type == "LoadBalancer"
        and not service.status.load_balancer.ingress
        and service.metadata.deletion_timestamp is None
    )


def _unserved_load_balancer(service: Service) -> Trouble | None:
    """A load balancer that has seen the Service gives its own reason in a condition, and in an Event."""
    if not waits_for_load_balancer(service) or service.status.conditions:
        return None
    lb_class = service.spec.load_balancer_class
    wanted = f'no load balancer of class "{lb_class}"' if lb_class else "no load balancer"
    return Trouble(
        NO_BALANCER,
        f"The Service has no external address: {wanted} has processed it. Run one (`bridgehead balancer`; in a lab"
        " `bridgehead up --balancer`), or use the node ports.",
    )


def _no_selector(service: Service) -> Trouble:
    meta = service.metadata
    return Trouble(
        NO_SELECTOR,
        "The Service has no selector and no endpoints, so connections to it are refused. Add a selector:"
        f" kubectl set selector -n {meta.namespace} service {meta.name} KEY=VALUE; or create an EndpointSlice with the"
        f" label kubernetes.io/service-name={meta.name}",
    )


def _bad_selection(service: Service, pods: Iterator[Pod], slices: Sequence[EndpointSlice]) -> Trouble | None:
    """Look at as few pods as possible: the first one mostly decides."""
    first = next(pods, None)
    if first is None:
        return None if slices else _no_pods(service)
    # Users may have added EndpointSlices of their own to a Service with a selector.
    served = {port.name or "" for slice_ in slices for port in slice_.ports or ()}
    missing = [port for port in service.spec.ports if isinstance(port.target_port, str) and port.name not in served]
    names: set[tuple[str, str]] = set()  # of the pods' ports, with their protocols
    for pod in itertools.chain((first,), pods):
        missing = [port for port in missing if resolve_port(pod, port) is None]
        if not missing:
            return None
        names.update((port.name, port.protocol) for port in container_ports(pod) if port.name)
    return _no_port(missing, sorted(name for name, protocol in names if protocol == missing[0].protocol))


def _no_pods(service: Service) -> Trouble:
    selector = _cut(",".join(f"{key}={value}" for key, value in sorted(service.spec.selector.items())))
    namespace = service.metadata.namespace
    effect = "its name has no addresses" if is_headless(service) else "connections to it are refused"
    return Trouble(
        NO_PODS,
        f"The selector {selector} matches no pod in namespace {namespace}, so {effect}. Compare it with the labels of"
        f" the pods: kubectl get pods -n {namespace} --show-labels",
    )


def _no_port(missing: Sequence[ServicePort], names: Sequence[str]) -> Trouble:
    """`names`: those of the pods' ports with the protocol of the first missing port."""
    first = missing[0]
    others = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
    there_are = f"they have: {_cut(', '.join(names))}" if names else f"they have no named {first.protocol} port"
    return Trouble(
        NO_PORT,
        f'No container of the selected pods has a {first.protocol} port named "{first.target_port}", the targetPort of'
        f" port {first.port}{others}; {there_are}. Set targetPort to a name or number that the pods have, or name the"
        " port in the pod template.",
    )


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
