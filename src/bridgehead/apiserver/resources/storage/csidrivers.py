"""CSIDriver (storage.k8s.io/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateCSIDriver`, `ValidateCSIDriverUpdate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import Column, JsonObject, Resource, Strategy
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, UNSET, at, boolean_column
from bridgehead.objects.names import check_dns1123_subdomain

_DEFAULTS: dict[str, Any] = {
    "attachRequired": True,
    "podInfoOnMount": False,
    "storageCapacity": False,
    "fsGroupPolicy": "ReadWriteOnceWithFSType",
    "requiresRepublish": False,
    "seLinuxMount": False,
}
_GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")
_LIFECYCLE_MODES = ("Ephemeral", "Persistent")
_TOKEN_SECONDS = (600, 2**32)
_LEAST_UPDATE_SECONDS = 10
# The field's path in errors is Kubernetes' own: `attachedRequired`.
_IMMUTABLE = {"attachRequired": "spec.attachedRequired", "volumeLifecycleModes": "spec.volumeLifecycleModes"}


class CSIDriverStrategy(Strategy):
    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        for name, value in _DEFAULTS.items():
            spec.setdefault(name, value)
        if not spec.get("volumeLifecycleModes"):
            spec["volumeLifecycleModes"] = ["Persistent"]
        for request in spec.get("tokenRequests", ()):
            request.setdefault("audience", "")

    def validate(self, obj: JsonObject) -> list[FieldError]:
        spec = obj.get("spec", {})
        errors = field.one_of("spec.fsGroupPolicy", spec.get("fsGroupPolicy"), _GROUP_POLICIES)
        errors.extend(_validate_tokens("spec.tokenRequests", spec.get("tokenRequests", ())))
        for mode in spec.get("volumeLifecycleModes", ()):
            errors.extend(field.one_of("spec.volumeLifecycleModes", mode, _LIFECYCLE_MODES))
        seconds = spec.get("nodeAllocatableUpdatePeriodSeconds")
        if seconds is not None and seconds < _LEAST_UPDATE_SECONDS:
            detail = f"must be greater than or equal to {_LEAST_UPDATE_SECONDS} seconds"
            errors.append(field.invalid("spec.nodeAllocatableUpdatePeriodSeconds", seconds, detail))
        if "serviceAccountTokenInSecrets" in spec and not spec.get("tokenRequests"):
            detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
            value = spec["serviceAccountTokenInSecrets"]
            errors.append(field.invalid("spec.serviceAccountTokenInSecrets", value, detail))
        return errors

    def validate_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> list[FieldError]:
        return [
            field.invalid(path, at(obj, "spec", name), field.IMMUTABLE)
            for name, path in _IMMUTABLE.items()
            if at(obj, "spec", name) != at(old, "spec", name)
        ]


def _validate_tokens(path: str, requests: Sequence[JsonObject]) -> list[FieldError]:
    errors = []
    audiences: set[str] = set()
    least, most = _TOKEN_SECONDS
    for index, request in enumerate(requests):
        item, audience = f"{path}[{index}]", request.get("audience", "")
        if audience in audiences:
            errors.append(field.duplicate(f"{item}.audience", audience))
        audiences.add(audience)
        seconds = request.get("expirationSeconds")
        if seconds is not None and seconds < least:
            detail = "may not specify a duration less than 10 minutes"
            errors.append(field.invalid(f"{item}.expirationSeconds", seconds, detail))
        elif seconds is not None and seconds > most:
            detail = "may not specify a duration larger than 2^32 seconds"
            errors.append(field.invalid(f"{item}.expirationSeconds", seconds, detail))
    return errors


def _tokens_cell(driver: JsonObject, now: float) -> str:
    requests = at(driver, "spec", "tokenRequests") or ()
    return ",".join(str(request.get("audience", "")) for request in requests) or UNSET


RESOURCE = Resource(
    group="storage.k8s.io",
    version="v1",
    kind="CSIDriver",
    plural="csidrivers",
    singular="csidriver",
    namespaced=False,
    strategy=CSIDriverStrategy(),
    columns=(
        NAME,
        boolean_column("AttachRequired", "spec", "attachRequired"),
        boolean_column("PodInfoOnMount", "spec", "podInfoOnMount"),
        boolean_column("StorageCapacity", "spec", "storageCapacity"),
        Column("TokenRequests", _tokens_cell),
        boolean_column("RequiresRepublish", "spec", "requiresRepublish"),
        Column("Modes", lambda driver, now: ",".join(map(str, at(driver, "spec", "volumeLifecycleModes") or ()))),
        AGE,
    ),
    returns_deleted=True,
    check_name=check_dns1123_subdomain,
    allows_unconditional_update=False,
)
