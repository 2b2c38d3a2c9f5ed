"""Validation of updates of a pod's status.

Called by `pods`. Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidatePodStatusUpdate`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared.address_rules import check_ip, family_of, warn_of_ip
from bridgehead.objects.names import check_dns1123_subdomain, check_qualified_name

from .claims_validation import validate_claim_statuses, validate_extended_claim_status

_SYSTEM_CONDITIONS = ("PodScheduled", "Ready", "Initialized")
_HEALTH = ("Healthy", "Unhealthy", "Unknown")
_HIGHEST_ID = 2**31 - 1
# list of statuses -> list of their containers
_CONTAINERS = {"containerStatuses": "containers", "initContainerStatuses": "initContainers"}
_EPHEMERAL = "ephemeralContainerStatuses"


def validate_status_update(pod: Field, old: JsonObject) -> None:
    """Validate the new status of a pod against the stored pod. Warnings about addresses are among the errors."""
    status, before, spec = pod.at("status", {}), old.get("status", {}), old.get("spec", {})
    if status.value == before:
        return
    for condition in status.at("conditions").each():
        _validate_generation(condition)
        kind = condition.get("type", "")
        if kind not in _SYSTEM_CONDITIONS:
            condition.at("Type").showing(kind).must_pass(check_qualified_name)  # so in Kubernetes
    node = status.at("nominatedNodeName")
    if node and node.value != before.get("nominatedNodeName"):
        node.must_pass(check_dns1123_subdomain)
        if spec.get("nodeName"):
            node.forbidden("may not be set on pods that are already bound to a node")
    _validate_generation(status)
    status.at("qosClass").must_not_change(before.get("qosClass"))
    _validate_transitions(status, before, spec)
    validate_claim_statuses(status.at("resourceClaimStatuses"), spec)
    status.at("extendedResourceClaimStatus").must_obey(validate_extended_claim_status, spec)
    _validate_addresses(status, before)
    for kind in (*_CONTAINERS, _EPHEMERAL):
        for container in status.at(kind).each():
            container.at("user").at("linux").must_obey(_validate_user, spec)
    _validate_health(status, spec)


def keep_generations(status: JsonObject, before: JsonObject) -> None:
    """Keep the stored `observedGeneration`s where the writer of a new status leaves them out, as old kubelets do."""
    _keep_generation(status, before)
    stored = {one.get("type"): one for one in before.get("conditions", ())}
    for condition in status.get("conditions", ()):
        _keep_generation(condition, stored.get(condition.get("type"), {}))


def _keep_generation(owner: JsonObject, before: JsonObject) -> None:
    if not owner.get("observedGeneration") and before.get("observedGeneration"):
        owner["observedGeneration"] = before["observedGeneration"]


def _validate_generation(owner: Field) -> None:
    owner.at("observedGeneration").must_be_at_least(0, "must be a non-negative integer")


# --- Containers ------------------------------------------------------------------------------------------


def _validate_transitions(status: Field, before: JsonObject, spec: JsonObject) -> None:
    """Validate that no container runs again that has ended for good. Errors have the places in the stored status."""
    may_all_restart = _may_all_restart(spec)
    for kind in (*_CONTAINERS, _EPHEMERAL):
        containers = {one.get("name"): one for one in spec.get(_CONTAINERS.get(kind, ""), ())}
        for old in status.showing(before).at(kind).each():
            name, code = old.get("name"), _exit_code(old.value)
            if code is None or (kind != _EPHEMERAL and may_all_restart):
                continue
            if any(new.get("name") == name and _exit_code(new) is None for new in status.get(kind, ())):
                container = containers.get(name)
                if container is None or not _may_restart(container, spec, code):
                    old.at("state").forbidden("may not be transitioned to non-terminated state")


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


def _validate_user(user: Field, spec: JsonObject) -> None:
    """Validate with which ids a container runs."""
    if spec.get("os", {}).get("name", "linux") == "windows":
        user.forbidden("cannot be set for a windows pod")
        return
    for number in (user.at("uid"), user.at("gid"), *user.at("supplementalGroups").each()):
        number.must_be_within(0, _HIGHEST_ID)


def _validate_health(status: Field, spec: JsonObject) -> None:
    """Validate the health of devices: each belongs to a resource that its container asks for."""
    for kind, owners in _CONTAINERS.items():
        for one in status.at(kind).each():
            if resources := one.at("allocatedResourcesStatus"):
                container = next((own for own in spec.get(owners, ()) if own.get("name") == one.get("name")), None)
                resources.must_all_obey(_validate_resource_health, container)
    for one in status.at(_EPHEMERAL).each():
        one.at("allocatedResourcesStatus").must_not_be_set("must not be specified in container status")


def _validate_resource_health(resource: Field, container: JsonObject | None) -> None:
    name = resource.at("name", "")
    if container is not None and name.value not in _requested(container):
        name.invalid(
            "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or "
            "'claim:<claimName>' if request is empty"
            if name.value.startswith("claim:")
            else "must match one of the container's resource requests"
        )
    seen: set[str] = set()
    for device in resource.at("resources").each():
        device.at("health", "").must_be_one_of(_HEALTH)
        device.at("resourceID", "").must_not_repeat(seen)


def _requested(container: JsonObject) -> Iterator[str]:
    """Yield the names of what a container asks for: resources, and requests of claims."""
    resources = container.get("resources", {})
    yield from resources.get("requests", ())
    for claim in resources.get("claims", ()):
        request = claim.get("request", "")
        yield f"claim:{claim.get('name', '')}" + (f"/{request}" if request else "")


# --- Addresses -------------------------------------------------------------------------------------------


def _validate_addresses(status: Field, before: JsonObject) -> None:
    _validate_ips(status.at("podIPs"), before.get("podIPs", ()))
    hosts = status.at("hostIPs")
    first = hosts.item(0)
    if first.value is not None and first.get("ip", "") != status.get("hostIP", ""):
        first.at("ip", "").invalid("must be equal to `hostIP`")
    _validate_ips(hosts, before.get("hostIPs", ()))


def _validate_ips(ips: Field, before: Sequence[JsonObject]) -> None:
    """Validate at most one address of each family. Addresses that are stored already may stay as they are."""
    stored = {one.get("ip", "") for one in before}
    texts = []
    for one in ips.each():
        address = one.at("ip", "")
        texts.append(address.value)
        if address.value not in stored:
            one.showing(address.value).must_pass(check_ip)
        for warning in warn_of_ip(address.path, address.value):
            address.warning(warning.partition(": ")[2])
    if len(texts) > 1 and sorted(map(family_of, texts)) != ["IPv4", "IPv6"]:
        shown = [{"IP": text} for text in texts]
        ips.showing(shown).invalid("may specify no more than one IP for each IP family")
