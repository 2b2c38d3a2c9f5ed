"""The plug-in PodTopologyLabels: a pod gets the zone and the region of its node as labels.

Programs read them by the downward API. They come with the Binding, or when a pod is created with its node.
Source: KEP-4742, plugin/pkg/admission/podtopologylabels.
"""

from __future__ import annotations

from typing import Final

import msgspec

from bridgehead.apiserver.resource import JsonObject
from bridgehead.objects.core import REGION_LABEL, ZONE_LABEL
from bridgehead.storage import Key, Store

from .attributes import CREATE, Attributes
from .chain import Plugin

_LABELS: Final = (REGION_LABEL, ZONE_LABEL)


class PodTopologyLabels(Plugin):
    """The plug-in PodTopologyLabels."""

    is_static = True

    def __init__(self, store: Store) -> None:
        self._store = store

    def handles(self, attributes: Attributes) -> bool:
        is_placing = attributes.operation == CREATE and attributes.subresource in ("", "binding")
        return is_placing and attributes.resource.id == "pods"

    async def mutate(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> JsonObject:
        node = obj.get("target", {}).get("name") if attributes.subresource else obj.get("spec", {}).get("nodeName")
        if node and (labels := self._labels_of(node)):
            metadata = obj["metadata"]
            metadata["labels"] = {**metadata.get("labels", {}), **labels}
        return obj

    def _labels_of(self, node: str) -> dict[str, str]:
        record = self._store.get(Key("nodes", "", node))
        labels = msgspec.json.decode(record.value)["metadata"].get("labels", {}) if record is not None else {}
        return {name: labels[name] for name in _LABELS if name in labels}
