"""The ConfigMap kube-system/extension-apiserver-authentication.

The servers of aggregated APIs read from it how to verify users: the CA of client certificates, and the CA and the
headers of this server's requests.
Source: Kubernetes pkg/controlplane/controller/clusterauthenticationtrust.
"""

from __future__ import annotations

import json
from pathlib import Path

from bridgehead.apiserver.access.request_headers import RequestHeaders
from bridgehead.apiserver.errors import ApiStatus
from bridgehead.apiserver.registry.registry import Registry
from bridgehead.apiserver.registry.write import Write
from bridgehead.apiserver.resource import JsonObject
from bridgehead.storage import Key

NAMESPACE, NAME = "kube-system", "extension-apiserver-authentication"


def authentication_data(client_ca: Path | None, headers: RequestHeaders | None) -> dict[str, str]:
    """Return the ConfigMap's data. Raises OSError."""
    data: dict[str, str] = {}
    if client_ca is not None:
        data["client-ca-file"] = client_ca.read_text()
    if headers is not None:
        data["requestheader-client-ca-file"] = headers.authority.read_text()
        for name, values in (
            ("allowed-names", headers.allowed_names),
            ("extra-headers-prefix", headers.extra_prefixes),
            ("group-headers", headers.groups),
            ("uid-headers", headers.uids),
            ("username-headers", headers.user_names),
        ):
            data[f"requestheader-{name}"] = json.dumps(values, separators=(",", ":"))
    return data


async def publish_authentication(registry: Registry, data: dict[str, str]) -> None:
    """Create or update the ConfigMap. Raises `ApiStatus`."""
    resource = registry.find("", "v1", "configmaps")
    if resource is None or not data:
        return

    def change(old: JsonObject) -> JsonObject:
        return {**old, "data": {**old.get("data", {}), **data}}

    if registry.store.get(Key(resource.id, NAMESPACE, NAME)) is None:
        try:
            await registry.create(Write(resource, NAMESPACE), {"metadata": {"name": NAME}, "data": data})
            return
        except ApiStatus as status:
            if status.reason != "AlreadyExists":  # another server on the same store was first
                raise
    await registry.update(Write(resource, NAMESPACE, NAME), change)
