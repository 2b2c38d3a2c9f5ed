"""CSIDriver (storage.k8s.io/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateCSIDriver`, `ValidateCSIDriverUpdate`.
"""

from __future__ import annotations

from typing import Any

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import Column, JsonObject, Resource, Strategy
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
# Fields, and their names in errors, where Kubernetes has `attachedRequired`.
_IMMUTABLE = {"attachRequired": "attachedRequired", "volumeLifecycleModes": "volumeLifecycleModes"}


class CSIDriverStrategy(Strategy):
    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        for name, value in _DEFAULTS.items():
            spec.setdefault(name, value)
        if not spec.get("volumeLifecycleModes"):
            spec["volumeLifecycleModes"] = ["Persistent"]
        for request in spec.get("tokenRequests", ()):
            request.setdefault("audience", "")

    def validate(self, obj: Field) -> None:
        spec = obj.at("spec")
        requests, in_secrets = spec.at("tokenRequests"), spec.at("serviceAccountTokenInSecrets")
        spec.at("fsGroupPolicy").must_be_one_of(_GROUP_POLICIES)
        _validate_tokens(requests)
        modes = spec.at("volumeLifecycleModes")
        for mode in modes.value or ():
            modes.showing(mode).must_be_one_of(_LIFECYCLE_MODES)
        period, least = spec.at("nodeAllocatableUpdatePeriodSeconds"), _LEAST_UPDATE_SECONDS
        period.must_be_at_least(least, f"must be greater than or equal to {least} seconds")
        if in_secrets.value is not None and not requests:
            in_secrets.invalid("serviceAccountTokenInSecrets is set but no tokenRequests are specified")

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        spec = obj.at("spec")
        for name, shown in _IMMUTABLE.items():
            spec.at(shown).showing(spec.get(name)).must_not_change(at(old, "spec", name))


def _validate_tokens(requests: Field) -> None:
    audiences: set[str] = set()
    least, most = _TOKEN_SECONDS
    for request in requests.each():
        request.at("audience", "").must_not_repeat(audiences)
        seconds = request.at("expirationSeconds")
        seconds.must_be_at_least(least, "may not specify a duration less than 10 minutes")
        seconds.must_be_at_most(most, "may not specify a duration larger than 2^32 seconds")


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
