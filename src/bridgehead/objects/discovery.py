"""discovery.k8s.io/v1 EndpointSlice (source: Kubernetes API reference v1.36)."""

from __future__ import annotations

from .meta import Object, ObjectReference, Part
from .times import parse_time

SERVICE_NAME_LABEL = "kubernetes.io/service-name"
MANAGED_BY_LABEL = "endpointslice.kubernetes.io/managed-by"
HEADLESS_LABEL = "service.kubernetes.io/headless"  # on the slices of a Service without an address
TRIGGER_TIME_ANNOTATION = "endpoints.kubernetes.io/last-change-trigger-time"  # when what led to a change happened


class EndpointConditions(Part, frozen=True, kw_only=True):
    """A condition that is absent is unknown; readers take unknown `ready` and `serving` as true."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None

    @property
    def is_ready(self) -> bool:
        """Whether it gets connections."""
        return self.ready is not False

    @property
    def is_draining(self) -> bool:
        """Whether it terminates and still serves, so that it gets connections where nobody is ready."""
        return self.terminating is True and self.serving is not False


class ForZone(Part, frozen=True, kw_only=True):
    name: str


class EndpointHints(Part, frozen=True, kw_only=True):
    for_zones: tuple[ForZone, ...] = ()
    for_nodes: tuple[ForZone, ...] = ()


class Endpoint(Part, frozen=True, kw_only=True):
    addresses: tuple[str, ...] = ()
    conditions: EndpointConditions = EndpointConditions()
    hostname: str | None = None
    target_ref: ObjectReference | None = None
    node_name: str | None = None
    zone: str | None = None
    hints: EndpointHints | None = None


class SlicePort(Part, frozen=True, kw_only=True):
    name: str | None = None
    protocol: str | None = None
    port: int | None = None
    app_protocol: str | None = None


class EndpointSlice(Object, frozen=True, kw_only=True):
    address_type: str = "IPv4"
    endpoints: tuple[Endpoint, ...] = ()
    ports: tuple[SlicePort, ...] | None = None

    @property
    def service_name(self) -> str:
        """The Service this slice belongs to, or "" when it belongs to none."""
        return self.metadata.labels.get(SERVICE_NAME_LABEL, "")

    @property
    def triggered_at(self) -> float | None:
        """When that happened which led to its last change, in epoch seconds; None when it does not say."""
        try:
            return parse_time(self.metadata.annotations[TRIGGER_TIME_ANNOTATION])
        except (KeyError, ValueError):
            return None


def index_by_service(slice_: EndpointSlice) -> tuple[str, ...]:
    """The index of an informer's slices by their Services: `namespace/name`, nothing for a slice without one."""
    return (f"{slice_.metadata.namespace}/{slice_.service_name}",) if slice_.service_name else ()
