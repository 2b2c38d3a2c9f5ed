"""Validation of ports in Services, containers, probes, Endpoints and EndpointSlices.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from typing import Any

from bridgehead.apiserver.resource import FieldError, JsonObject
from bridgehead.objects.names import (
    check_dns1123_label,
    check_port_name,
    check_port_number,
    check_qualified_name,
)

from . import field

PROTOCOLS = ("SCTP", "TCP", "UDP")


def validate_port_number_or_name(path: str, port: int | str) -> list[FieldError]:
    """Validate a `targetPort` or the port of a probe."""
    check: Any = check_port_name if isinstance(port, str) else check_port_number
    return field.invalid_for(path, port, check(port))


def validate_endpoint_port(path: str, port: JsonObject, *, needs_name: bool) -> list[FieldError]:
    """Validate a port of Endpoints or of an EndpointSlice; its number may be missing."""
    errors = []
    if name := port.get("name"):
        errors.extend(field.invalid_for(f"{path}.name", name, check_dns1123_label(name)))
    elif needs_name:
        errors.append(field.required(f"{path}.name"))
    if "port" in port:
        errors.extend(field.invalid_for(f"{path}.port", port["port"], check_port_number(port["port"])))
    errors.extend(field.one_of(f"{path}.protocol", port.get("protocol", ""), PROTOCOLS))
    if (app_protocol := port.get("appProtocol")) is not None:
        errors.extend(field.invalid_for(f"{path}.appProtocol", app_protocol, check_qualified_name(app_protocol)))
    return errors
