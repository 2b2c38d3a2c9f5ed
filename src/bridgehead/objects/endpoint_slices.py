"""discovery.k8s.io/v1 EndpointSlice, and the meaning of its fields when they are absent.

Pure: no I/O, no clock, no randomness. Source: Kubernetes API reference v1.36, `k8s.io/api/discovery/v1/types.go`.
"""

from __future__ import annotations

from typing import Final

from .meta import Object, ObjectKey, ObjectReference, Part
from .times import parse_time

SERVICE_NAME_LABEL: Final = "kubernetes.io/service-name"
MANAGED_BY_LABEL: Final = "endpointslice.kubernetes.io/managed-by"
HEADLESS_LABEL: Final = "service.kubernetes.io/headless"  # on the slices of a Service without a cluster IP
# Time of the change that led to the latest write of the slice.
TRIGGER_TIME_ANNOTATION: Final = "endpoints.kubernetes.io/last-change-trigger-time"

DEFAULT_MAX_ENDPOINTS: Final = 100  # of a slice: kube-controller-manager's --max-endpoints-per-slice


class EndpointConditions(Part, frozen=True, kw_only=True):
    """The conditions as written. An absent one means true for `ready` and `serving`, false for `terminating`."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None

    @property
    def is_ready(self) -> bool:
        """Whether the endpoint gets new connections."""
        return self.ready is not False

    @property
    def is_serving(self) -> bool:
        """Whether the endpoint would answer, terminating or not."""
        return self.serving is not False

    @property
    def is_terminating(self) -> bool:
        return self.terminating is True

    @property
    def is_draining(self) -> bool:
        """Whether the endpoint terminates and still serves: it gets new connections where no endpoint is ready."""
        return self.terminating is True and self.serving is not False

    @property
    def is_usable(self) -> bool:
        """Whether the endpoint may get new connections: it is ready or draining."""
        return self.is_ready or self.is_draining


class ForZone(Part, frozen=True, kw_only=True):
    name: str


class ForNode(Part, frozen=True, kw_only=True):
    name: str


class EndpointHints(Part, frozen=True, kw_only=True):
    for_zones: tuple[ForZone, ...] = ()
    for_nodes: tuple[ForNode, ...] = ()


class Endpoint(Part, frozen=True, kw_only=True):
    addresses: tuple[str, ...] = ()
    conditions: EndpointConditions = EndpointConditions()
    hostname: str | None = None
    target_ref: ObjectReference | None = None
    node_name: str | None = None
    zone: str | None = None
    hints: EndpointHints | None = None

    @property
    def first_address(self) -> str | None:
        """The address to use; None without any. All addresses of an endpoint lead to the same pod (API)."""
        return self.addresses[0] if self.addresses else None

    @property
    def pod_uid(self) -> str:
        """The uid of the pod behind the endpoint; "" without a reference."""
        return self.target_ref.uid if self.target_ref is not None else ""

    @property
    def hinted_zones(self) -> tuple[str, ...]:
        return tuple(zone.name for zone in self.hints.for_zones) if self.hints is not None else ()

    @property
    def hinted_nodes(self) -> tuple[str, ...]:
        return tuple(node.name for node in self.hints.for_nodes) if self.hints is not None else ()


class SlicePort(Part, frozen=True, kw_only=True):
    """A port of all endpoints of a slice. `port` None means all ports, which nothing here can translate to."""

    name: str | None = None
    protocol: str | None = None
    port: int | None = None
    app_protocol: str | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Name and protocol, by which a slice's port belongs to a Service's."""
        return self.name or "", self.protocol or "TCP"


class EndpointSlice(Object, frozen=True, kw_only=True):
    address_type: str = "IPv4"
    endpoints: tuple[Endpoint, ...] = ()
    ports: tuple[SlicePort, ...] | None = None

    @property
    def service_name(self) -> str:
        """The name of the Service to which the slice belongs, by its label; "" when it belongs to none."""
        return self.metadata.labels.get(SERVICE_NAME_LABEL, "")

    @property
    def service_key(self) -> ObjectKey | None:
        """The Service to which the slice belongs; None when it belongs to none."""
        name = self.service_name
        return ObjectKey(self.metadata.namespace, name) if name else None

    @property
    def triggered_at(self) -> float | None:
        """The time of the change that led to the latest write, in epoch seconds; None without a valid annotation."""
        try:
            return parse_time(self.metadata.annotations[TRIGGER_TIME_ANNOTATION])
        except (KeyError, ValueError):
            return None


def index_by_service(slice_: EndpointSlice) -> tuple[str, ...]:
    """The keys of a slice in an informer's index by Service: one `namespace/name`, none without a Service."""
    key = slice_.service_key
    return (str(key),) if key is not None else ()


def service_selector(service: str) -> str:
    """The label selector of the slices of the Service with this name."""
    return f"{SERVICE_NAME_LABEL}={service}"
