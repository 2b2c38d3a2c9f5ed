"""The source ranges of a load balancer: the field of a Service, and the annotation that was its older form.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateService`, `ValidateLoadBalancerSourceRanges`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared.address_rules import check_cidr, validate_new_cidr

_ANNOTATION = "service.beta.kubernetes.io/load-balancer-source-ranges"
_ONLY_LOAD_BALANCER = "may only be used when `type` is 'LoadBalancer'"


def validate_source_ranges(service: Field) -> None:
    """Validate the ranges of a Service, also if they were stored before."""
    origin, ranges = _source_ranges(service)
    if origin.value is not None and service.at("spec").get("type") != "LoadBalancer":
        origin.forbidden(_ONLY_LOAD_BALANCER)
    for cidr in ranges:
        cidr.must_pass(lambda text: check_cidr(text.strip()))


def validate_new_source_ranges(service: Field, old: JsonObject) -> None:
    """Validate more strictly the ranges that `old` does not have. `old` is {} for a create."""
    stored = {cidr.value.strip() for cidr in _source_ranges(Field(old))[1]}
    for cidr in _source_ranges(service)[1]:
        validate_new_cidr(cidr, stored)


def _source_ranges(service: Field) -> tuple[Field, list[Field]]:
    """Return the field or the annotation that has the ranges, and the ranges."""
    spec = service.at("spec")
    if texts := spec.get("loadBalancerSourceRanges"):
        ranges = Field(texts, "LoadBalancerSourceRanges", spec)  # as errors of Kubernetes spell it
        return ranges, list(ranges.each())
    annotation = service.at("metadata").at("annotations").entry(_ANNOTATION)
    if annotation.value is None or not annotation.value.strip():
        return annotation, []
    return annotation, [annotation.showing(text) for text in annotation.value.split(",")]
