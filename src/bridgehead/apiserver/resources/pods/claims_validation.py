"""Validation of resource claims: `resourceClaims` of a pod spec, `resources.claims` of containers, and their status.

Called by `pod_validation`, `resource_validation` and `status_validation`. Pure: no I/O, no clock, no randomness.
Source: Kubernetes `validatePodResourceClaims`, `validateResourceClaimNames`, `validatePodResourceClaimStatuses`,
`validatePodExtendedResourceClaimStatus`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import islice

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field
from bridgehead.objects.names import check_dns1123_label, check_dns1123_subdomain

from .pod_containers import visit_containers

_SOURCES = ("resourceClaimName", "resourceClaimTemplateName")
# How many names of claims an error lists, and how much of each: more than a valid one has.
_MAX_NAMES = 16
_MAX_NAME = 64
_REQUEST = ("containerName", "resourceName", "requestName")


def claim_names(spec: JsonObject) -> dict[str, None]:
    """Return the names by which the containers of a pod spec may refer to its claims, sorted."""
    return dict.fromkeys(sorted(claim["name"] for claim in spec.get("resourceClaims", ()) if claim.get("name")))


def validate_claims(path: str, claims: Sequence[JsonObject]) -> list[FieldError]:
    """Validate the `resourceClaims` of a pod spec."""
    errors = []
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        item, name = f"{path}[{index}]", claim.get("name", "")
        if name in seen:
            errors.append(field.duplicate(f"{item}.name", name))
        else:
            errors += field.required_valid(f"{item}.name", name, check_dns1123_label)
            seen.add(name)
        given = [source for source in _SOURCES if source in claim]
        if len(given) != 1:
            detail = (
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
                if given
                else "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            )
            errors.append(field.invalid(item, _as_go(claim), detail))
        for source in given:
            referent = claim[source]
            errors += field.invalid_for(f"{item}.{source}", referent, check_dns1123_subdomain(referent))
    return errors


def _as_go(claim: JsonObject) -> JsonObject:
    """Return a claim as errors show it: with the names of Kubernetes' internal type, and all of its fields."""
    return {
        "Name": claim.get("name", ""),
        "ResourceClaimName": claim.get("resourceClaimName"),
        "ResourceClaimTemplateName": claim.get("resourceClaimTemplateName"),
    }


def validate_claim_references(path: str, claims: Sequence[JsonObject], names: Collection[str]) -> list[FieldError]:
    """Validate the `claims` of a container's resources. `names` are those of the claims of its pod, sorted."""
    errors = []
    seen: set[str] = set()
    requests: Counter[str] = Counter()
    for index, claim in enumerate(claims):
        item, name = f"{path}[{index}]", claim.get("name", "")
        if not name:
            errors.append(field.required(item))
            continue
        errors += _validate_reference(item, name, claim.get("request", ""), seen, requests)
        if name not in names:
            known = f": {_shown(names)}" if names else " which is empty"
            message = f"{field.not_found(item, name).message}: must be one of the names in pod.spec.resourceClaims"
            errors.append(FieldError("FieldValueNotFound", item, message + known))
    return errors


def _shown(names: Collection[str]) -> str:
    """Return the names as one text, of many only the first: each error has it."""
    shown = [name[:_MAX_NAME] for name in islice(names, _MAX_NAMES)]
    return ", ".join(shown if len(names) <= _MAX_NAMES else [*shown, "..."])


def _validate_reference(path: str, name: str, request: str, seen: set[str], requests: Counter[str]) -> list[FieldError]:
    """Validate that no request of a claim is referred to twice. A claim without request stands for all of them.

    `requests`: how many requests of each claim are in `seen`.
    """
    if name in seen:
        return [field.duplicate(path, name)]
    errors = field.invalid_for(f"{path}.request", request, check_dns1123_label(request)) if request else []
    key = f"{name}/{request}" if request else name
    if key in seen:
        errors.append(field.duplicate(path, key))
    elif request:
        requests[name] += 1
    else:
        errors += [field.duplicate(path, name)] * requests[name]
    seen.add(key)
    return errors


def validate_claim_statuses(path: str, statuses: Sequence[JsonObject], spec: JsonObject) -> list[FieldError]:
    """Validate the `resourceClaimStatuses` of a pod."""
    errors = []
    names = claim_names(spec)
    seen: set[str] = set()
    for index, status in enumerate(statuses):
        item, name = f"{path}[{index}].name", status.get("name", "")
        if name not in names:
            errors.append(field.invalid(item, name, "must match the name of an entry in `spec.resourceClaims`"))
        if name in seen:
            errors.append(field.duplicate(item, name))
        seen.add(name)
        if "resourceClaimName" in status:
            claim = status["resourceClaimName"]
            errors += field.invalid_for(item, claim, check_dns1123_subdomain(claim))
    return errors


def validate_extended_claim_status(path: str, status: JsonObject, spec: JsonObject) -> list[FieldError]:
    """Validate the `extendedResourceClaimStatus` of a pod: which request of a claim stands for which resource."""
    containers = {one.get("name", ""): one for _, one in visit_containers("", {**spec, "ephemeralContainers": ()})}
    errors = []
    mappings = status.get("requestMappings", ())
    if not mappings:
        errors.append(field.required(f"{path}.requestMappings", "at least one request mapping is required"))
    seen: set[tuple[str, ...]] = set()
    for index, mapping in enumerate(mappings):
        item = f"{path}.requestMappings[{index}]"
        key = name, resource, request = tuple(mapping.get(one, "") for one in _REQUEST)
        if name not in containers:
            detail = "must match the name of an entry in spec.initContainers.name or spec.containers.name"
            errors.append(field.invalid(f"{item}.containerName", name, detail))
        elif resource not in containers[name].get("resources", {}).get("requests", {}):
            detail = (
                "must match the extended resource name of an entry in spec.initContainers.resources.requests or "
                "spec.containers.resources.requests"
            )
            errors.append(field.invalid(f"{item}.resourceName", resource, detail))
        errors += field.invalid_for(f"{path}.requestName", request, check_dns1123_label(request))  # so in Kubernetes
        if key in seen:
            errors += [field.duplicate(f"{item}.{one}", value) for one, value in zip(_REQUEST, key, strict=True)]
        seen.add(key)
    claim = status.get("resourceClaimName", "")
    return [*errors, *field.required_valid(f"{path}.resourceClaimName", claim, check_dns1123_subdomain)]
