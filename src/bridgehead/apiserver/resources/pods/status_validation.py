"""Validation of updates of a pod's status.

Called by `pods`. Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidatePodStatusUpdate`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.addresses import check_ip, family_of, warn_of_ip
from bridgehead.objects.names import check_dns1123_subdomain, check_qualified_name

from .claims_validation import validate_claim_statuses, validate_extended_claim_status

_SYSTEM_CONDITIONS = ("PodScheduled", "Ready", "Initialized")
_HEALTH = ("Healthy", "Unhealthy", "Unknown")
_HIGHEST_ID = 2**31 - 1
# list of statuses -> list of their containers
_CONTAINERS = {"containerStatuses": "containers", "initContainerStatuses": "initContainers"}
_EPHEMERAL = "ephemeralContainerStatuses"


def validate_status_update(obj: JsonObject, old: JsonObject) -> list[FieldError]:
    """Validate the new status of a pod against the stored pod. Warnings about addresses are among the errors."""
    status, before = obj.get("status", {}), old.get("status", {})
    if status == before:
        return []
    spec = old.get("spec", {})
    errors = _validate_conditions(status.get("conditions", ()))
    errors += _validate_nominated_node(status.get("nominatedNodeName", ""), before.get("nominatedNodeName", ""), spec)
    errors += _validate_generation("status.observedGeneration", status)
    if status.get("qosClass") != before.get("qosClass"):
        errors.append(field.invalid("status.qosClass", status.get("qosClass"), field.IMMUTABLE))
    errors += _validate_transitions(status, before, spec)
    if claims := status.get("resourceClaimStatuses"):
        errors += validate_claim_statuses("status.resourceClaimStatuses", claims, spec)
    if (claim := status.get("extendedResourceClaimStatus")) is not None:
        errors += validate_extended_claim_status("status.extendedResourceClaimStatus", claim, spec)
    errors += _validate_addresses(status, before)
    for kind in (*_CONTAINERS, _EPHEMERAL):
        for index, one in enumerate(status.get(kind, ())):
            if "user" in one:
                errors += _validate_user(f"status.{kind}[{index}].user.linux", one["user"].get("linux"), spec)
    return [*errors, *_validate_health(status, spec)]


def keep_generations(status: JsonObject, before: JsonObject) -> None:
    """Keep the stored `observedGeneration`s where the writer of a new status leaves them out, as old kubelets do."""
    _keep_generation(status, before)
    stored = {one.get("type"): one for one in before.get("conditions", ())}
    for condition in status.get("conditions", ()):
        _keep_generation(condition, stored.get(condition.get("type"), {}))


def _keep_generation(owner: JsonObject, before: JsonObject) -> None:
    if not owner.get("observedGeneration") and before.get("observedGeneration"):
        owner["observedGeneration"] = before["observedGeneration"]


def _validate_conditions(conditions: Sequence[JsonObject]) -> list[FieldError]:
    errors = []
    for index, condition in enumerate(conditions):
        path, kind = f"status.conditions[{index}]", condition.get("type", "")
        errors += _validate_generation(f"{path}.observedGeneration", condition)
        if kind not in _SYSTEM_CONDITIONS:
            errors += field.invalid_for(f"{path}.Type", kind, check_qualified_name(kind))
    return errors


def _validate_generation(path: str, owner: JsonObject) -> list[FieldError]:
    generation = owner.get("observedGeneration", 0)
    return [] if generation >= 0 else [field.invalid(path, generation, "must be a non-negative integer")]


def _validate_nominated_node(name: str, before: str, spec: JsonObject) -> list[FieldError]:
    if not name or name == before:
        return []
    path = "status.nominatedNodeName"
    errors = field.invalid_for(path, name, check_dns1123_subdomain(name))
    if spec.get("nodeName"):
        errors.append(field.forbidden(path, "may not be set on pods that are already bound to a node"))
    return errors


# --- Containers ------------------------------------------------------------------------------------------


def _validate_transitions(status: JsonObject, before: JsonObject, spec: JsonObject) -> list[FieldError]:
    """Validate that no container runs again that has ended for good."""
    errors = []
    may_all_restart = _may_all_restart(spec)
    for kind in (*_CONTAINERS, _EPHEMERAL):
        containers = {one.get("name"): one for one in spec.get(_CONTAINERS.get(kind, ""), ())}
        for index, old in enumerate(before.get(kind, ())):
            code = _exit_code(old)
            if code is None or (kind != _EPHEMERAL and may_all_restart):
                continue
            name = old.get("name")
            if any(new.get("name") == name and _exit_code(new) is None for new in status.get(kind, ())):
                container = containers.get(name)
                if container is None or not _may_restart(container, spec, code):
                    detail = "may not be transitioned to non-terminated state"
                    errors.append(field.forbidden(f"status.{kind}[{index}].state", detail))
    return errors


def _exit_code(status: JsonObject) -> int | None:
    terminated = status.get("state", {}).get("terminated")
    return None if terminated is None else terminated.get("exitCode", 0)


def _may_all_restart(spec: JsonObject) -> bool:
    """Whether some exit code of a container restarts all of them, whatever their own policies are."""
    return any(
        rule.get("action") == "RestartAllContainers"
        for kind in _CONTAINERS.values()
        for container in spec.get(kind, ())
        for rule in container.get("restartPolicyRules", ())
    )


def _may_restart(container: JsonObject, spec: JsonObject, code: int) -> bool:
    """Whether the container restarts after this exit code: by its rules, its policy, or that of its pod."""
    policy = container.get("restartPolicy")
    if policy is not None:
        for rule in container.get("restartPolicyRules", ()):
            codes = rule.get("exitCodes", {})
            if (code in codes.get("values", ())) is (codes.get("operator") == "In"):
                return True
    policy = policy or spec.get("restartPolicy", "Always")
    return bool(policy == "Always" or (policy == "OnFailure" and code != 0))


def _validate_user(path: str, user: JsonObject | None, spec: JsonObject) -> list[FieldError]:
    """Validate with which ids a container runs."""
    if user is None:
        return []
    if spec.get("os", {}).get("name", "linux") == "windows":
        return [field.forbidden(path, "cannot be set for a windows pod")]
    errors = []
    for name in ("uid", "gid"):
        errors += field.within(f"{path}.{name}", user.get(name, 0), 0, _HIGHEST_ID)
    for index, group in enumerate(user.get("supplementalGroups", ())):
        errors += field.within(f"{path}.supplementalGroups[{index}]", group, 0, _HIGHEST_ID)
    return errors


def _validate_health(status: JsonObject, spec: JsonObject) -> list[FieldError]:
    """Validate the health of devices: each belongs to a resource that its container asks for."""
    errors = []
    for kind, owners in _CONTAINERS.items():
        for index, one in enumerate(status.get(kind, ())):
            if "allocatedResourcesStatus" not in one:
                continue
            path = f"status.{kind}[{index}].allocatedResourcesStatus"
            container = next((own for own in spec.get(owners, ()) if own.get("name") == one.get("name")), None)
            for position, resource in enumerate(one["allocatedResourcesStatus"]):
                errors += _validate_resource_health(f"{path}[{position}]", resource, container)
    for index, one in enumerate(status.get(_EPHEMERAL, ())):
        if one.get("allocatedResourcesStatus"):
            path = f"status.{_EPHEMERAL}[{index}].allocatedResourcesStatus"
            errors.append(field.forbidden(path, "must not be specified in container status"))
    return errors


def _validate_resource_health(path: str, resource: JsonObject, container: JsonObject | None) -> list[FieldError]:
    errors = []
    name = resource.get("name", "")
    if container is not None and name not in _requested(container):
        detail = (
            "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or "
            "'claim:<claimName>' if request is empty"
            if name.startswith("claim:")
            else "must match one of the container's resource requests"
        )
        errors.append(field.invalid(f"{path}.name", name, detail))
    seen: set[str] = set()
    for index, device in enumerate(resource.get("resources", ())):
        item = f"{path}.resources[{index}]"
        errors += field.one_of(f"{item}.health", device.get("health", ""), _HEALTH)
        identity = device.get("resourceID", "")
        if identity in seen:
            errors.append(field.duplicate(f"{item}.resourceID", identity))
        seen.add(identity)
    return errors


def _requested(container: JsonObject) -> Iterator[str]:
    """Yield the names of what a container asks for: resources, and requests of claims."""
    resources = container.get("resources", {})
    yield from resources.get("requests", ())
    for claim in resources.get("claims", ()):
        request = claim.get("request", "")
        yield f"claim:{claim.get('name', '')}" + (f"/{request}" if request else "")


# --- Addresses -------------------------------------------------------------------------------------------


def _validate_addresses(status: JsonObject, before: JsonObject) -> list[FieldError]:
    errors = []
    hosts = status.get("hostIPs", ())
    first = hosts[0].get("ip", "") if hosts else ""
    errors += _validate_ips("status.podIPs", status.get("podIPs", ()), before.get("podIPs", ()))
    if hosts and status.get("hostIP", "") != first:
        errors.append(field.invalid("status.hostIPs[0].ip", first, "must be equal to `hostIP`"))
    return [*errors, *_validate_ips("status.hostIPs", hosts, before.get("hostIPs", ()))]


def _validate_ips(path: str, ips: Sequence[JsonObject], before: Sequence[JsonObject]) -> list[FieldError]:
    """Validate at most one address of each family. Addresses that are stored already may stay as they are."""
    texts = [one.get("ip", "") for one in ips]
    stored = {one.get("ip", "") for one in before}
    errors = []
    for index, text in enumerate(texts):
        if text not in stored:
            errors += field.invalid_for(f"{path}[{index}]", text, check_ip(text))
        for warning in warn_of_ip(f"{path}[{index}].ip", text):
            where, _, what = warning.partition(": ")
            errors.append(FieldError("", where, what, is_warning=True))
    if len(texts) > 1 and sorted(map(family_of, texts)) != ["IPv4", "IPv6"]:
        detail = "may specify no more than one IP for each IP family"
        errors.append(field.invalid(path, [{"IP": text} for text in texts], detail))
    return errors
