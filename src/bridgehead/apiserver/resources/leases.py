"""Lease (coordination.k8s.io/v1): its entry in the table and its rules.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject, Resource, Strategy
from bridgehead.objects.names import check_dns1123_subdomain

from .shared.columns import AGE, NAME, text_column


class LeaseStrategy(Strategy):
    def default(self, obj: JsonObject) -> None:
        obj.setdefault("spec", {})

    def validate(self, obj: Field) -> None:
        transitions, seconds = obj.at("spec").at("leaseTransitions"), obj.at("spec").at("leaseDurationSeconds")
        transitions.must_not_be_negative()
        if seconds.value is not None and seconds.value <= 0:
            seconds.invalid("must be greater than 0")

    def prepare_create(self, obj: JsonObject) -> None:
        _drop_election(obj, {})

    def prepare_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> None:
        _drop_election(obj, old.get("spec", {}))


def _drop_election(obj: JsonObject, before: JsonObject) -> None:
    """Remove the fields of CoordinatedLeaderElection, a feature that is off, unless they were set before."""
    spec = obj.get("spec", {})
    for name in ("strategy", "preferredHolder"):
        if name in spec and name not in before:
            del spec[name]


RESOURCE = Resource(
    group="coordination.k8s.io",
    version="v1",
    kind="Lease",
    plural="leases",
    singular="lease",
    namespaced=True,
    strategy=LeaseStrategy(),
    columns=(NAME, text_column("Holder", "spec", "holderIdentity"), AGE),
    is_created_by_update=True,
    check_name=check_dns1123_subdomain,
    allows_unconditional_update=False,
)
