"""The source ranges of a load balancer: the field of a Service, and the annotation that was its older form.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateService`, `ValidateLoadBalancerSourceRanges`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.addresses import check_cidr, validate_new_cidr

_ANNOTATION = "service.beta.kubernetes.io/load-balancer-source-ranges"
_ONLY_LOAD_BALANCER = "may only be used when `type` is 'LoadBalancer'"


def validate_source_ranges(service: JsonObject) -> list[FieldError]:
    """Validate the ranges of a Service, also if they were stored before."""
    path, ranges = _source_ranges(service)
    errors = []
    if path and service.get("spec", {}).get("type") != "LoadBalancer":
        errors.append(field.forbidden(path, _ONLY_LOAD_BALANCER))
    for item_path, text in ranges:
        errors.extend(field.invalid_for(item_path, text, check_cidr(text.strip())))
    return errors


def validate_new_source_ranges(service: JsonObject, old: JsonObject) -> list[FieldError]:
    """Validate more strictly the ranges that `old` does not have. `old` is {} for a create."""
    stored = {text.strip() for _, text in _source_ranges(old)[1]}
    return [
        error
        for path, text in _source_ranges(service)[1]
        for error in field.errors_below(path, validate_new_cidr, text, stored)
    ]


def _source_ranges(service: JsonObject) -> tuple[str, list[tuple[str, str]]]:
    """Return the path of the ranges ("" without any), and each range with its path."""
    path = "spec.LoadBalancerSourceRanges"
    if ranges := service.get("spec", {}).get("loadBalancerSourceRanges"):
        return path, [(f"{path}[{index}]", text) for index, text in enumerate(ranges)]
    annotation = service.get("metadata", {}).get("annotations", {}).get(_ANNOTATION)
    if annotation is None:
        return "", []
    path = f"metadata.annotations[{_ANNOTATION}]"
    return path, [(path, text) for text in annotation.split(",") if annotation.strip()]
