"""Validation of probes and lifecycle hooks.

Called by `container_validation`. Pure: no I/O, no clock, no randomness.
Source: Kubernetes `validateProbe`, `validateHandler`.
"""

from __future__ import annotations

import re

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resources.shared.port_rules import validate_port_number_or_name
from bridgehead.objects.names import check_port_number

_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_SCHEMES = ("HTTP", "HTTPS")
_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_HEADER_NAME = re.compile(r"[-A-Za-z0-9]+")


def validate_probe(probe: Field, kind: str, grace_seconds: int) -> None:
    """Validate a probe. `kind` is livenessProbe, readinessProbe or startupProbe."""
    validate_handler(probe, grace_seconds)
    for name in _NUMBERS:
        probe.at(name).must_not_be_negative()
    own_grace, threshold = probe.at("terminationGracePeriodSeconds"), probe.at("successThreshold", 1)
    own_grace.must_be_at_least(1, "must be greater than 0")
    if kind == "readinessProbe":
        if own_grace.value is not None:
            own_grace.invalid("must not be set for readinessProbes")
    elif threshold.value != 1:
        threshold.invalid("must be 1")


def validate_handler(handler: Field, grace_seconds: int) -> None:
    """Validate a hook, or the handler of a probe: exactly one of exec, httpGet, tcpSocket ..."""
    given = [name for name in _HANDLERS if name in handler.value]
    if not given:
        handler.required("must specify a handler type")
        return
    action = handler.at(given[0])
    match given[0]:
        case "exec":
            action.at("command").must_be_set()
        case "httpGet":
            _validate_http(action)
        case "tcpSocket":
            validate_port_number_or_name(action.at("port", 0))
        case "grpc":
            action.at("port", 0).must_pass(check_port_number)
        case "sleep":
            detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_seconds})"
            action.showing(action.get("seconds", 0)).must_be_within(0, grace_seconds, detail)
    for name in given[1:]:
        handler.at(name).forbidden("may not specify more than 1 handler type")


def _validate_http(action: Field) -> None:
    validate_port_number_or_name(action.at("port", 0))
    action.at("scheme", "").must_be_one_of(_SCHEMES)
    headers = action.at("httpHeaders")
    for header in headers.each():
        name = header.get("name", "")
        if not _HEADER_NAME.fullmatch(name):
            headers.showing(name).invalid(
                "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used "
                "for validation is '[-A-Za-z0-9]+')"
            )
