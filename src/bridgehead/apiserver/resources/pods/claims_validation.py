"""Validation of resource claims: `resourceClaims` of a pod spec, `resources.claims` of containers, and their status.

Called by `pod_validation`, `resource_validation` and `status_validation`. Pure: no I/O, no clock, no randomness.
Source: Kubernetes `validatePodResourceClaims`, `validateResourceClaimNames`, `validatePodResourceClaimStatuses`,
`validatePodExtendedResourceClaimStatus`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from itertools import islice

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject
from bridgehead.objects.names import check_dns1123_label, check_dns1123_subdomain

from .pod_containers import visit_containers

_SOURCES = ("resourceClaimName", "resourceClaimTemplateName")
# Number of claims' names that an error lists, and characters of each: more than a valid one has.
_MAX_NAMES = 16
_MAX_NAME = 64
_REQUEST = ("containerName", "resourceName", "requestName")


def claim_names(spec: JsonObject) -> dict[str, None]:
    """Return the names by which the containers of a pod spec may refer to its claims, sorted."""
    return dict.fromkeys(sorted(claim["name"] for claim in spec.get("resourceClaims", ()) if claim.get("name")))


def validate_claims(claims: Field) -> None:
    """Validate the `resourceClaims` of a pod spec."""
    seen: set[str] = set()
    for claim in claims.each():
        name = claim.at("name", "")
        if name.must_not_repeat(seen):
            name.must_be_set_and_pass(check_dns1123_label)
        given = [source for source in _SOURCES if source in claim.value]
        if not given:
            claim.showing(_as_go(claim.value)).invalid(
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            )
        elif len(given) > 1:
            claim.showing(_as_go(claim.value)).invalid(
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            )
        for source in given:
            claim.at(source).must_pass(check_dns1123_subdomain)


def _as_go(claim: JsonObject) -> JsonObject:
    """Return a claim as errors show it: with the names of Kubernetes' internal type, and all of its fields."""
    return {
        "Name": claim.get("name", ""),
        "ResourceClaimName": claim.get("resourceClaimName"),
        "ResourceClaimTemplateName": claim.get("resourceClaimTemplateName"),
    }


def validate_claim_references(claims: Field, names: Collection[str]) -> None:
    """Validate the `claims` of a container's resources. `names` are those of the claims of its pod, sorted."""
    seen: set[str] = set()
    requests: Counter[str] = Counter()
    for claim in claims.each():
        name = claim.showing(claim.get("name"))  # Kubernetes does not name the field
        if not name.must_be_set():
            continue
        _validate_reference(name, claim.at("request"), seen, requests)
        if name.value not in names:
            known = f": {_shown(names)}" if names else " which is empty"
            name.not_found(f"must be one of the names in pod.spec.resourceClaims{known}")


def _shown(names: Collection[str]) -> str:
    """Return the names as one text, of many only the first: each error has it."""
    shown = [name[:_MAX_NAME] for name in islice(names, _MAX_NAMES)]
    return ", ".join(shown if len(names) <= _MAX_NAMES else [*shown, "..."])


def _validate_reference(name: Field, request: Field, seen: set[str], requests: Counter[str]) -> None:
    """Validate that no request of a claim is referred to twice. A claim without request stands for all of them.

    `requests`: how many requests of each claim are in `seen`.
    """
    if name.value in seen:
        name.duplicate()
        return
    if request:
        request.must_pass(check_dns1123_label)
        if name.showing(f"{name.value}/{request.value}").must_not_repeat(seen):
            requests[name.value] += 1
        return
    for _ in range(requests[name.value]):
        name.duplicate()
    seen.add(name.value)


def validate_claim_statuses(statuses: Field, spec: JsonObject) -> None:
    """Validate the `resourceClaimStatuses` of a pod."""
    names = claim_names(spec)
    seen: set[str] = set()
    for status in statuses.each():
        name = status.at("name", "")
        if name.value not in names:
            name.invalid("must match the name of an entry in `spec.resourceClaims`")
        name.must_not_repeat(seen)
        name.showing(status.get("resourceClaimName")).must_pass(check_dns1123_subdomain)  # so in Kubernetes


def validate_extended_claim_status(status: Field, spec: JsonObject) -> None:
    """Validate the `extendedResourceClaimStatus` of a pod: which request of a claim stands for which resource."""
    containers = {one.get("name", ""): one for _, one in visit_containers("", {**spec, "ephemeralContainers": ()})}
    mappings = status.at("requestMappings")
    mappings.must_be_set("at least one request mapping is required")
    seen: set[tuple[str, ...]] = set()
    for mapping in mappings.each():
        name, resource, request = parts = [mapping.at(one, "") for one in _REQUEST]
        if name.value not in containers:
            name.invalid("must match the name of an entry in spec.initContainers.name or spec.containers.name")
        elif resource.value not in containers[name.value].get("resources", {}).get("requests", {}):
            resource.invalid(
                "must match the extended resource name of an entry in spec.initContainers.resources.requests or "
                "spec.containers.resources.requests"
            )
        status.at("requestName").showing(request.value).must_pass(check_dns1123_label)  # so in Kubernetes
        key = tuple(part.value for part in parts)
        if key in seen:
            for part in parts:
                part.duplicate()
        seen.add(key)
    status.at("resourceClaimName").must_be_set_and_pass(check_dns1123_subdomain)
