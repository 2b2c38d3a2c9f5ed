"""What ports have in common, whoever has them: Services, containers, probes, Endpoints and EndpointSlices."""

from __future__ import annotations

from typing import Any

from bridgehead.apiserver.resource import FieldError
from bridgehead.objects.names import check_port_name, check_port_number

from . import field

PROTOCOLS = ("SCTP", "TCP", "UDP")


def validate_port_number_or_name(path: str, port: int | str) -> list[FieldError]:
    """A `targetPort`, or the port of a probe."""
    check: Any = check_port_name if isinstance(port, str) else check_port_number
    return field.invalid_for(path, port, check(port))
