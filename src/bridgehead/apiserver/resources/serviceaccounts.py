"""ServiceAccount (core/v1): its entry in the table, its hooks and its warnings.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.apiserver.resource import Column, JsonObject, Resource, Strategy
from bridgehead.objects.names import check_dns1123_subdomain

from .shared.columns import AGE, NAME, at

_ENFORCES = "kubernetes.io/enforce-mountable-secrets"


class ServiceAccountStrategy(Strategy):
    def prepare_create(self, obj: JsonObject) -> None:
        _keep_names(obj)

    def prepare_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> None:
        _keep_names(obj)

    def warnings(self, obj: JsonObject) -> list[str]:
        if _ENFORCES not in (at(obj, "metadata", "annotations") or ()):
            return []
        detail = "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        return [f"metadata.annotations[{_ENFORCES}]: {detail}"]

    def update_warnings(self, obj: JsonObject, old: JsonObject) -> list[str]:
        return [] if _ENFORCES in (at(old, "metadata", "annotations") or ()) else self.warnings(obj)


def _keep_names(account: JsonObject) -> None:
    """Reduce the references to Secrets to their names: all are Secrets of the account's namespace."""
    if "secrets" in account:
        account["secrets"] = [{k: v for k, v in secret.items() if k == "name"} for secret in account["secrets"]]


RESOURCE = Resource(
    group="",
    version="v1",
    kind="ServiceAccount",
    plural="serviceaccounts",
    singular="serviceaccount",
    namespaced=True,
    short_names=("sa",),
    subresources=("token",),
    strategy=ServiceAccountStrategy(),
    columns=(NAME, Column("Secrets", lambda account, now: len(account.get("secrets", ()))), AGE),
    returns_deleted=True,
    check_name=check_dns1123_subdomain,
)
