"""CSIStorageCapacity (storage.k8s.io/v1): its entry in the table and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateCSIStorageCapacity`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject, Resource, Strategy
from bridgehead.apiserver.resources.shared.columns import NAME, text_column
from bridgehead.apiserver.resources.shared.metadata_validation import validate_label_selector
from bridgehead.apiserver.resources.shared.node_labels import warn_of_expressions, warn_of_label
from bridgehead.apiserver.resources.shared.quantity_rules import validate_quantity
from bridgehead.objects.names import check_dns1123_subdomain

# The input of a driver's GetCapacity call.
_IMMUTABLE = ("nodeTopology", "storageClassName")


class CSIStorageCapacityStrategy(Strategy):
    def validate(self, obj: Field) -> None:
        validate_label_selector(obj.at("nodeTopology"))
        obj.at("storageClassName", "").must_pass(check_dns1123_subdomain)
        validate_quantity(obj.at("capacity", "0"))

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        for name in _IMMUTABLE:
            obj.at(name).must_not_change(old.get(name))

    def warnings(self, obj: JsonObject) -> list[str]:
        topology = obj.get("nodeTopology", {})
        warnings = warn_of_expressions("nodeTopology", topology.get("matchExpressions", ()))
        for label in topology.get("matchLabels", {}):
            warnings.extend(warn_of_label(f"nodeTopology.matchLabels.{label}", label))
        return warnings


RESOURCE = Resource(
    group="storage.k8s.io",
    version="v1",
    kind="CSIStorageCapacity",
    plural="csistoragecapacities",
    singular="csistoragecapacity",
    namespaced=True,
    strategy=CSIStorageCapacityStrategy(),
    columns=(NAME, text_column("StorageClassName", "storageClassName"), text_column("Capacity", "capacity")),
    check_name=check_dns1123_subdomain,
    allows_unconditional_update=False,
)
