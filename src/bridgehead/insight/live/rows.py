"""Rows of the tables of Services, their endpoints, pods, nodes and Events, computed from objects of the API.

Every text that anybody may have written is one line without control characters, and bounded. Times are in epoch
seconds, 0 if unknown.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import msgspec


class Row(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of the rows. `key`: unique in its table; `NAMESPACE/NAME`, or the name of what has no namespace."""

    key: str


class ServiceRow(Row, frozen=True, kw_only=True):
    """A Service. `ports` as `http 80:30080/TCP`.

    `external`: external IPs and load-balancer addresses, or the name of an ExternalName. `ready` and `total` count
    endpoints. `problem`: one word, "" if all is well: NoPods (the selector matches no pod), NotReady (there are
    endpoints or pods, none is ready), NoEndpoints (no selector, no endpoints), Pending (a LoadBalancer without
    address), Rejected (a node's kernel rejects its rules).
    """

    namespace: str
    name: str
    type: str
    cluster_ips: tuple[str, ...]
    external: tuple[str, ...]
    ports: tuple[str, ...]
    ready: int
    total: int
    problem: str
    created: float


class EndpointItem(msgspec.Struct, frozen=True, array_like=True):
    """One endpoint. `state`: ready, not ready, draining (terminating and serving), terminating.

    `slice`: the position of its EndpointSlice in the row's `slices`.
    """

    address: str
    state: str
    pod: str  # its name; "" without one
    node: str
    zone: str
    slice: int = 0


class EndpointsRow(Row, frozen=True, kw_only=True):
    """The endpoints of one Service from all its slices, sorted by address. `ports` as `http 8080/TCP`.

    `slices`: the names of the EndpointSlices.
    """

    ports: tuple[str, ...]
    endpoints: tuple[EndpointItem, ...]
    slices: tuple[str, ...] = ()


class PodRow(Row, frozen=True, kw_only=True):
    """A pod. `status` is kubectl's column STATUS (Running, CrashLoopBackOff, Terminating, Init:0/1, ...).

    `ready` and `total` count containers. `owner`: `ReplicaSet/NAME`, "" without a controller.
    """

    namespace: str
    name: str
    ready: int
    total: int
    status: str
    restarts: int
    ip: str
    node: str
    owner: str
    is_ready: bool
    created: float


class NodeRow(Row, frozen=True, kw_only=True):
    """A node. `status` is kubectl's column STATUS (Ready, NotReady,SchedulingDisabled, ...).

    `proxy`: mode of its service proxy, "-" if unknown; `proxy_problem`: a sentence, "" if all is well.
    """

    name: str
    status: str
    is_ready: bool
    proxy: str
    proxy_problem: str
    pods: int
    ip: str
    zone: str
    version: str  # of the kubelet
    created: float


class EventRow(Row, frozen=True, kw_only=True):
    """An Event. `type`: Normal or Warning. `object`: `Pod/NAME`."""

    namespace: str
    type: str
    reason: str
    object: str
    message: str
    count: int
    source: str
    last: float
