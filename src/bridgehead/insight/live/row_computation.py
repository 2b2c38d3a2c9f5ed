"""Computes rows from objects.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bridgehead.insight.findings import printable
from bridgehead.insight.proxies import ProxyState
from bridgehead.objects.core import Event, Node, Pod, Service
from bridgehead.objects.core.pods import ContainerState, ContainerStateTerminated, ContainerStatus
from bridgehead.objects.core.services import ServicePort
from bridgehead.objects.endpoint_slices import Endpoint, EndpointSlice, SlicePort
from bridgehead.objects.meta import find_condition, is_condition_true
from bridgehead.objects.times import parse_time

from .rows import EndpointItem, EndpointsRow, EventRow, NodeRow, PodRow, ServiceRow

_LONGEST_NAME = 253
_LONGEST_WORD = 63
_MOST = 100  # ports and addresses of one row


def service_row(
    service: Service, slices: Sequence[EndpointSlice], *, has_pods: bool | None, is_rejected: bool
) -> ServiceRow:
    """Return the row of a Service.

    `has_pods`: whether its selector matches a pod; None if pods cannot be seen. `is_rejected`: by a node's kernel.
    """
    spec, meta = service.spec, service.metadata
    ready, total = count_endpoints(slices)
    if spec.type == "ExternalName":
        external: tuple[str, ...] = (spec.external_name,)
    else:
        external = spec.external_ips + tuple(each.ip or each.hostname for each in service.status.load_balancer.ingress)
    return ServiceRow(
        key=str(service.key),
        namespace=_name(meta.namespace),
        name=_name(meta.name),
        type=_word(spec.type),
        cluster_ips=tuple(map(_word, (spec.cluster_ips or tuple(filter(None, (spec.cluster_ip,))))[:_MOST])),
        external=tuple(map(_name, external[:_MOST])),
        ports=tuple(map(port_text, spec.ports[:_MOST])),
        ready=ready,
        total=total,
        problem=_service_problem(service, ready, total, has_pods, is_rejected),
        created=_epoch(meta.creation_timestamp),
    )


def _service_problem(service: Service, ready: int, total: int, has_pods: bool | None, is_rejected: bool) -> str:
    spec = service.spec
    if spec.type == "ExternalName":
        return ""
    if is_rejected:
        return "Rejected"
    if not ready:
        if total:
            return "" if spec.publish_not_ready_addresses else "NotReady"
        if not spec.selector or has_pods is None:
            return "NoEndpoints"
        return "NotReady" if has_pods else "NoPods"
    if spec.type == "LoadBalancer" and not service.status.load_balancer.ingress:
        return "Pending"
    return ""


def count_endpoints(slices: Iterable[EndpointSlice]) -> tuple[int, int]:
    """Return the number of ready endpoints and of all: pods, or addresses without one. Two families count once.

    A terminating endpoint that does not serve any more is not counted.
    """
    ready: set[object] = set()
    found: set[object] = set()
    for slice_ in slices:
        for endpoint in slice_.endpoints:
            conditions = endpoint.conditions
            if conditions.is_terminating and not conditions.is_serving:
                continue
            identity: object = endpoint.pod_uid or endpoint.addresses
            found.add(identity)
            if conditions.is_ready:
                ready.add(identity)
    return len(ready), len(found)


def port_text(port: ServicePort) -> str:
    """Return a port as `http 80:30080/TCP`, or `80/TCP` without a name and a node port."""
    name = f"{_word(port.name)} " if port.name else ""
    node = f":{port.node_port}" if port.node_port else ""
    return f"{name}{port.port}{node}/{_word(port.protocol)}"


def endpoints_row(service: Service, slices: Iterable[EndpointSlice]) -> EndpointsRow:
    """Return the endpoints of a Service, from all of its slices."""
    items: dict[tuple[str, str], EndpointItem] = {}
    ports: dict[str, None] = {}
    names: list[str] = []
    for slice_ in slices:
        names.append(_name(slice_.metadata.name))
        for port in slice_.ports or ():
            ports[_slice_port_text(port)] = None
        for endpoint in slice_.endpoints:
            item = _endpoint_item(endpoint, len(names) - 1)
            items.setdefault((item.address, item.pod), item)
    return EndpointsRow(
        key=str(service.key),
        ports=tuple(ports)[:_MOST],
        endpoints=tuple(items[key] for key in sorted(items)),
        slices=tuple(names),
    )


def _slice_port_text(port: SlicePort) -> str:
    name = f"{_word(port.name)} " if port.name else ""
    return f"{name}{'any' if port.port is None else port.port}/{_word(port.protocol or 'TCP')}"


def _endpoint_item(endpoint: Endpoint, slice_: int) -> EndpointItem:
    target = endpoint.target_ref
    return EndpointItem(
        address=_name(endpoint.first_address or ""),
        state=_endpoint_state(endpoint),
        pod=_name(target.name) if target is not None and target.kind == "Pod" else "",
        node=_name(endpoint.node_name or ""),
        zone=_name(endpoint.zone or ""),
        slice=slice_,
    )


def _endpoint_state(endpoint: Endpoint) -> str:
    conditions = endpoint.conditions
    if conditions.is_ready:
        return "ready"
    if conditions.is_draining:
        return "draining"
    return "terminating" if conditions.is_terminating else "not ready"


def pod_row(pod: Pod) -> PodRow:
    meta, owner = pod.metadata, pod.metadata.controller
    ready, total, status, restarts = summarize_pod(pod)
    return PodRow(
        key=str(pod.key),
        namespace=_name(meta.namespace),
        name=_name(meta.name),
        ready=ready,
        total=total,
        status=printable(status, _LONGEST_WORD),
        restarts=restarts,
        ip=_word(pod.status.pod_ip or (pod.status.pod_ips[0].ip if pod.status.pod_ips else "")),
        node=_name(pod.spec.node_name),
        owner=_name(f"{owner.kind}/{owner.name}") if owner is not None else "",
        is_ready=pod.is_ready and not pod.is_terminating,
        created=_epoch(meta.creation_timestamp),
    )


def summarize_pod(pod: Pod) -> tuple[int, int, str, int]:
    """Return the ready containers, all of them, kubectl's STATUS and the restarts (Kubernetes `printPod`)."""
    spec, status = pod.spec, pod.status
    sidecars = {each.name for each in spec.init_containers if each.is_sidecar}
    text = status.reason or status.phase or "Unknown"
    scheduled = find_condition(status.conditions, "PodScheduled")
    if scheduled is not None and scheduled.reason == "SchedulingGated":
        text = "SchedulingGated"
    ready = restarts = 0
    is_initializing = False
    for index, container in enumerate(status.init_container_statuses):
        restarts += container.restart_count
        if _has_succeeded(container):
            continue
        if container.name in sidecars and container.started:
            ready += container.ready
            continue
        text = _init_text(container, index, len(spec.init_containers))
        is_initializing = True
        break
    if not is_initializing or is_condition_true(status.conditions, "Initialized"):
        # Once the pod runs, restarts of sidecars still count, but not those of other init containers.
        restarts = sum(each.restart_count for each in status.init_container_statuses if each.name in sidecars)
        restarts += sum(each.restart_count for each in status.container_statuses)
        text, running = _containers_text(text, status.container_statuses)
        ready += running
        if text == "Completed" and running:
            text = "Running" if pod.is_ready else "NotReady"
    if pod.is_terminating:
        if status.reason == "NodeLost":
            text = "Unknown"
        elif not pod.is_finished:
            text = "Terminating"
    return ready, len(spec.containers) + len(sidecars), text, restarts


def _has_succeeded(container: ContainerStatus) -> bool:
    ended = container.state.terminated
    return ended is not None and ended.exit_code == 0


def _init_text(container: ContainerStatus, index: int, count: int) -> str:
    state = container.state
    if state.terminated is not None:
        return f"Init:{_end_text(state.terminated)}"
    if state.waiting is not None and state.waiting.reason not in ("", "PodInitializing"):
        return f"Init:{state.waiting.reason}"
    return f"Init:{index}/{count}"


def _containers_text(text: str, containers: Sequence[ContainerStatus]) -> tuple[str, int]:
    """Return the status after the containers' states, and the number of those that run and are ready."""
    running = 0
    for container in reversed(containers):
        state: ContainerState = container.state
        if state.waiting is not None and state.waiting.reason:
            text = state.waiting.reason
        elif state.terminated is not None:
            text = _end_text(state.terminated)
        elif container.ready and state.running is not None:
            running += 1
    return text, running


def _end_text(ended: ContainerStateTerminated) -> str:
    return ended.reason or f"ExitCode:{ended.exit_code}"


def node_row(node: Node, proxy: ProxyState, pods: int) -> NodeRow:
    """Return the row of a node. `pods`: the number of those on it."""
    ready = find_condition(node.status.conditions, "Ready")
    status = "Unknown" if ready is None else "Ready" if ready.status == "True" else "NotReady"
    return NodeRow(
        key=node.metadata.name,
        name=_name(node.metadata.name),
        status=f"{status},SchedulingDisabled" if node.spec.unschedulable else status,
        is_ready=node.is_ready,
        proxy=printable(proxy.mode, _LONGEST_WORD),
        proxy_problem=printable(proxy.problem),
        pods=pods,
        ip=_word(next(iter(node.internal_ips), "")),
        zone=_name(node.zone),
        version=_word(str(node.status.node_info.get("kubeletVersion", ""))),
        created=_epoch(node.metadata.creation_timestamp),
    )


def event_row(event: Event) -> EventRow:
    about = event.involved_object
    return EventRow(
        key=str(event.key),
        namespace=_name(event.metadata.namespace),
        type=_word(event.type),
        reason=printable(event.reason, 128),
        object=_name(f"{about.kind}/{about.name}"),
        message=printable(event.message),
        count=max(1, event.count),
        source=_name(event.source.component or event.reporting_component),
        last=event_time(event),
    )


def event_time(event: Event) -> float:
    """Return the time of the latest occurrence, in epoch seconds."""
    times = (event.last_timestamp, event.event_time, event.first_timestamp, event.metadata.creation_timestamp)
    return _epoch(next(filter(None, times), None))


def _name(text: str) -> str:
    return printable(text, _LONGEST_NAME)


def _word(text: str) -> str:
    return printable(text, _LONGEST_WORD)


def _epoch(text: str | None) -> float:
    if not text:
        return 0.0
    try:
        return parse_time(text)
    except ValueError:
        return 0.0
