"""Endpoints, the older form of EndpointSlices.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.objects.meta import Object, ObjectReference, Part


class EndpointAddress(Part, frozen=True, kw_only=True):
    ip: str
    hostname: str = ""
    node_name: str | None = None
    target_ref: ObjectReference | None = None


class EndpointPort(Part, frozen=True, kw_only=True):
    port: int
    name: str = ""
    protocol: str = "TCP"
    app_protocol: str | None = None


class EndpointSubset(Part, frozen=True, kw_only=True):
    addresses: tuple[EndpointAddress, ...] = ()
    not_ready_addresses: tuple[EndpointAddress, ...] = ()
    ports: tuple[EndpointPort, ...] = ()


class Endpoints(Object, frozen=True, kw_only=True):
    subsets: tuple[EndpointSubset, ...] = ()
