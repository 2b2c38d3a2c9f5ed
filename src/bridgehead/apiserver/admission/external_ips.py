"""DenyServiceExternalIPs: Services may keep or remove externalIPs, but get no new ones (CVE-2020-8554).

Off by default. Source: kubernetes/plugin/pkg/admission/denyserviceexternalips/admission.go.
"""

from __future__ import annotations

from bridgehead.apiserver.errors import forbidden
from bridgehead.apiserver.resource import JsonObject

from .attributes import CREATE, UPDATE, Attributes
from .chain import Plugin


class DenyServiceExternalIps(Plugin):
    is_static = True

    def handles(self, attributes: Attributes) -> bool:
        is_write = attributes.operation in (CREATE, UPDATE) and not attributes.subresource
        return attributes.resource.id == "services" and is_write

    async def validate(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> None:
        if not _external_ips(obj) <= _external_ips(old):
            why = "Use of external IPs is denied by admission control"
            raise forbidden(attributes.resource, attributes.name, why)


def _external_ips(service: JsonObject) -> set[str]:
    return set(service.get("spec", {}).get("externalIPs") or ())
