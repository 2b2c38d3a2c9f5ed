"""Validation of probes and lifecycle hooks.

Called by `container_validation`. Pure: no I/O, no clock, no randomness.
Source: Kubernetes `validateProbe`, `validateHandler`.
"""

from __future__ import annotations

import re

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.ports import validate_port_number_or_name
from bridgehead.objects.names import check_port_number

_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_SCHEMES = ("HTTP", "HTTPS")
_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_HEADER_NAME = re.compile(r"[-A-Za-z0-9]+")


def validate_probe(path: str, probe: JsonObject, kind: str, grace_seconds: int) -> list[FieldError]:
    """Validate a probe. `kind` is livenessProbe, readinessProbe or startupProbe."""
    errors = validate_handler(path, probe, grace_seconds)
    for name in _NUMBERS:
        errors.extend(field.non_negative(f"{path}.{name}", probe.get(name, 0)))
    own_grace = probe.get("terminationGracePeriodSeconds")
    if own_grace is not None and own_grace <= 0:
        errors.append(field.invalid(f"{path}.terminationGracePeriodSeconds", own_grace, "must be greater than 0"))
    if kind == "readinessProbe":
        if own_grace is not None:
            detail = "must not be set for readinessProbes"
            errors.append(field.invalid(f"{path}.terminationGracePeriodSeconds", own_grace, detail))
    elif probe.get("successThreshold", 1) != 1:
        errors.append(field.invalid(f"{path}.successThreshold", probe["successThreshold"], "must be 1"))
    return errors


def validate_handler(path: str, handler: JsonObject, grace_seconds: int) -> list[FieldError]:
    """Validate a hook, or the handler of a probe: exactly one of exec, httpGet, tcpSocket ..."""
    given = [name for name in _HANDLERS if name in handler]
    others = field.only_one(path, given, "handler type")
    if not given:
        return others
    errors: list[FieldError] = []
    kind, action = given[0], handler[given[0]]
    item = f"{path}.{kind}"
    match kind:
        case "exec":
            if not action.get("command"):
                errors.append(field.required(f"{item}.command"))
        case "httpGet":
            errors.extend(_validate_http(item, action))
        case "tcpSocket":
            errors.extend(field.errors_below(f"{item}.port", validate_port_number_or_name, action.get("port", 0)))
        case "grpc":
            port = action.get("port", 0)
            errors.extend(field.invalid_for(f"{item}.port", port, check_port_number(port)))
        case "sleep":
            seconds = action.get("seconds", 0)
            if not 0 <= seconds <= grace_seconds:
                detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_seconds})"
                errors.append(field.invalid(item, seconds, detail))
    return [*errors, *others]


def _validate_http(path: str, action: JsonObject) -> list[FieldError]:
    errors = field.errors_below(f"{path}.port", validate_port_number_or_name, action.get("port", 0))
    errors.extend(field.one_of(f"{path}.scheme", action.get("scheme"), _SCHEMES))
    for header in action.get("httpHeaders", ()):
        name = header.get("name", "")
        if not _HEADER_NAME.fullmatch(name):
            detail = (
                "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used "
                "for validation is '[-A-Za-z0-9]+')"
            )
            errors.append(field.invalid(f"{path}.httpHeaders", name, detail))
    return errors
