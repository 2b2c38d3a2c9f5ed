"""The plug-in LimitRanger: default requests and limits of containers, and bounds of pods and volume claims.

Source: Kubernetes plugin/pkg/admission/limitranger/admission.go.
"""

from __future__ import annotations

import msgspec

from bridgehead.apiserver.errors import forbidden
from bridgehead.apiserver.quotas.limits import set_defaults, violations
from bridgehead.apiserver.resource import JsonObject
from bridgehead.storage import Record, Store

from .attributes import CREATE, UPDATE, Attributes, shown_name
from .chain import Plugin


class LimitRanger(Plugin):
    is_static = True

    def __init__(self, store: Store) -> None:
        self._store = store

    def handles(self, attributes: Attributes) -> bool:
        # The containers of a pod do not change, except for their sizes.
        wanted = {CREATE: "", UPDATE: "resize"} if attributes.resource.id == "pods" else {CREATE: "", UPDATE: ""}
        is_limited = attributes.resource.id in ("pods", "persistentvolumeclaims")
        return is_limited and wanted.get(attributes.operation) == attributes.subresource

    async def mutate(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> JsonObject:
        if attributes.resource.id == "pods":
            for record in self._ranges(attributes):
                set_defaults(msgspec.json.decode(record.value), obj)
        return obj

    async def validate(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> None:
        for record in self._ranges(attributes):
            texts = violations(msgspec.json.decode(record.value), attributes.resource.id, obj)
            if texts:
                unique = list(dict.fromkeys(texts))
                why = unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"
                raise forbidden(attributes.resource, attributes.name or shown_name(obj), why)

    def _ranges(self, attributes: Attributes) -> list[Record]:
        return self._store.list("limitranges", attributes.namespace)
