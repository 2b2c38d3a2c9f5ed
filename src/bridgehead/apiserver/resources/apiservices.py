"""APIService (apiregistration.k8s.io/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateAPIService` and `ValidateAPIServiceStatus`.
"""

from __future__ import annotations

import base64

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import CLIENT_METADATA, Column, JsonObject, Resource, Strategy
from bridgehead.objects.names import check_dns1035_label, check_dns1123_subdomain, check_path_segment

from .shared.columns import AGE, NAME, at
from .shared.conditions import find_condition

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

    def validate(self, obj: Field) -> None:
        name, spec = obj.at("metadata").at("name", ""), obj.at("spec")
        group, version = spec.at("group", ""), spec.at("version", "")
        wanted = f"{version.value}.{group.value}"
        # Others refuse a name that is missing or that is no segment of a path.
        if name.value not in ("", wanted) and not check_path_segment(name.value):
            name.invalid(f'must be `spec.version+"."+spec.group`: "{wanted}"')
        if group:
            group.must_pass(check_dns1123_subdomain)
        elif version.value != "v1":
            group.required("only v1 may have an empty group and it better be legacy kube")
        version.must_pass(check_dns1035_label)
        for priority, most in (
            (spec.at("groupPriorityMinimum", 0), _MAX_GROUP_PRIORITY),
            (spec.at("versionPriority", 0), _MAX_VERSION_PRIORITY),
        ):
            priority.must_be_within(1, most, f"must be positive and less than {most}")
        _validate_connection(spec)
        for condition in obj.at("status").at("conditions").each():
            condition.at("status", "").must_be_one_of(_STATUSES)


def _validate_connection(spec: Field) -> None:
    service, bundle, is_insecure = spec.at("service"), spec.at("caBundle"), spec.at("insecureSkipTLSVerify")
    if service.value is None:
        if bundle:
            size = f"{len(base64.b64decode(bundle.value))} bytes"
            bundle.showing(size).invalid("local APIServices may not have a caBundle")
        if is_insecure:
            is_insecure.invalid("local APIServices may not have insecureSkipTLSVerify")
        return
    for name in ("namespace", "name"):
        service.at(name).must_be_set()
    port = service.at("port", DEFAULT_PORT)
    port.must_be_within(1, 65535, "port is not valid: must be between 1 and 65535, inclusive")
    if is_insecure and bundle:
        is_insecure.invalid("may not be true if caBundle is present")


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
