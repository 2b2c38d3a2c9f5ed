"""Validation of ports in Services, containers, probes, Endpoints and EndpointSlices.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field
from bridgehead.objects.names import (
    check_dns1123_label,
    check_port_name,
    check_port_number,
    check_qualified_name,
)

PROTOCOLS = ("SCTP", "TCP", "UDP")


def validate_port_number_or_name(port: Field) -> None:
    """Validate a `targetPort` or the port of a probe."""
    port.must_pass(check_port_name if isinstance(port.value, str) else check_port_number)


def validate_endpoint_port(port: Field, *, needs_name: bool) -> None:
    """Validate a port of Endpoints or of an EndpointSlice; its number may be missing."""
    if name := port.at("name"):
        name.must_pass(check_dns1123_label)
    elif needs_name:
        name.required()
    port.at("port").must_pass(check_port_number)
    port.at("protocol", "").must_be_one_of(PROTOCOLS)
    port.at("appProtocol").must_pass(check_qualified_name)
