"""APIService (apiregistration.k8s.io/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateAPIService` and `ValidateAPIServiceStatus`.
"""

from __future__ import annotations

import base64

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import CLIENT_METADATA, Column, JsonObject, Resource, Strategy
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, at
from bridgehead.apiserver.resources.shared.conditions import find_condition
from bridgehead.objects.names import check_dns1035_label, check_dns1123_subdomain, check_path_segment

AVAILABLE = "Available"
DEFAULT_PORT = 443

_MAX_GROUP_PRIORITY, _MAX_VERSION_PRIORITY = 20_000, 1000
_STATUSES = ("True", "False", "Unknown")


def local_condition(time: str) -> JsonObject:
    """Return the condition of an API that this server serves itself, since `time` (RFC 3339)."""
    return {
        "type": AVAILABLE,
        "status": "True",
        "lastTransitionTime": time,
        "reason": "Local",
        "message": "Local APIService is always available",
    }


class APIServiceStrategy(Strategy):
    def default(self, obj: JsonObject) -> None:
        service = obj.setdefault("spec", {}).get("service")
        if service is not None:
            service.setdefault("port", DEFAULT_PORT)

    def prepare_create(self, obj: JsonObject) -> None:
        obj["status"] = {}
        if "service" not in obj.get("spec", {}):
            obj["status"] = {"conditions": [local_condition(obj["metadata"].get("creationTimestamp", ""))]}

    def prepare_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> None:
        kept = "spec" if subresource == "status" else "status"
        obj[kept] = old.get(kept, {})

    def validate(self, obj: JsonObject) -> list[FieldError]:
        spec = obj.get("spec", {})
        group, version = spec.get("group", ""), spec.get("version", "")
        errors = _validate_name(obj["metadata"].get("name", ""), group, version)
        if not group and version != "v1":
            detail = "only v1 may have an empty group and it better be legacy kube"
            errors.append(field.required("spec.group", detail))
        if group:
            errors += field.invalid_for("spec.group", group, check_dns1123_subdomain(group))
        errors += field.invalid_for("spec.version", version, check_dns1035_label(version))
        for name, most in (("groupPriorityMinimum", _MAX_GROUP_PRIORITY), ("versionPriority", _MAX_VERSION_PRIORITY)):
            value = spec.get(name, 0)
            if not 0 < value <= most:
                errors.append(field.invalid(f"spec.{name}", value, f"must be positive and less than {most}"))
        return errors + _validate_connection(spec) + _validate_status(obj.get("status", {}))


def _validate_name(name: str, group: str, version: str) -> list[FieldError]:
    required = f"{version}.{group}"
    if name in ("", required) or check_path_segment(name):
        return []  # others refuse a name that is missing or that is no segment of a path
    return [field.invalid("metadata.name", name, f'must be `spec.version+"."+spec.group`: "{required}"')]


def _validate_connection(spec: JsonObject) -> list[FieldError]:
    service, bundle = spec.get("service"), spec.get("caBundle", "")
    is_insecure = spec.get("insecureSkipTLSVerify", False)
    errors: list[FieldError] = []
    if service is None:
        if bundle:
            size = f"{len(base64.b64decode(bundle))} bytes"
            errors.append(field.invalid("spec.caBundle", size, "local APIServices may not have a caBundle"))
        if is_insecure:
            detail = "local APIServices may not have insecureSkipTLSVerify"
            errors.append(field.invalid("spec.insecureSkipTLSVerify", is_insecure, detail))
        return errors
    errors += [field.required(f"spec.service.{name}") for name in ("namespace", "name") if not service.get(name)]
    if not 0 < service.get("port", DEFAULT_PORT) <= 65535:
        detail = "port is not valid: must be between 1 and 65535, inclusive"
        errors.append(field.invalid("spec.service.port", service["port"], detail))
    if is_insecure and bundle:
        detail = "may not be true if caBundle is present"
        errors.append(field.invalid("spec.insecureSkipTLSVerify", is_insecure, detail))
    return errors


def _validate_status(status: JsonObject) -> list[FieldError]:
    return [
        error
        for index, condition in enumerate(status.get("conditions", ()))
        for error in field.one_of(f"status.conditions[{index}].status", condition.get("status", ""), _STATUSES)
    ]


def _service_cell(api_service: JsonObject, now: float) -> str:
    service = at(api_service, "spec", "service")
    return "Local" if service is None else f"{service.get('namespace', '')}/{service.get('name', '')}"


def _available_cell(api_service: JsonObject, now: float) -> str:
    condition = find_condition(at(api_service, "status", "conditions"), AVAILABLE)
    if condition is None:
        return "Unknown"
    status = str(condition.get("status", ""))
    return status if status == "True" else f"{status} ({condition.get('reason', '')})"


RESOURCE = Resource(
    group="apiregistration.k8s.io",
    version="v1",
    kind="APIService",
    plural="apiservices",
    singular="apiservice",
    namespaced=False,
    subresources=("status",),
    categories=("api-extensions",),
    strategy=APIServiceStrategy(),
    columns=(
        NAME,
        Column("Service", _service_cell, description="The reference to the service that hosts this API endpoint."),
        Column("Available", _available_cell, description="Whether this service is available."),
        AGE,
    ),
    kept_by_status=CLIENT_METADATA,
    allows_unconditional_update=False,
)
