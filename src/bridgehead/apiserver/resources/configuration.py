"""ConfigMap, Secret and ServiceAccount (core/v1): their entries in the table."""

from __future__ import annotations

from bridgehead.apiserver.resource import Column, Resource
from bridgehead.objects.names import check_dns1123_subdomain

from .columns import AGE, NAME, selectable, text_column

CONFIG_MAPS = Resource(
    group="",
    version="v1",
    kind="ConfigMap",
    plural="configmaps",
    singular="configmap",
    namespaced=True,
    short_names=("cm",),
    columns=(NAME, Column("Data", lambda cm, now: len(cm.get("data", ())) + len(cm.get("binaryData", ()))), AGE),
    check_name=check_dns1123_subdomain,
)

SECRETS = Resource(
    group="",
    version="v1",
    kind="Secret",
    plural="secrets",
    singular="secret",
    namespaced=True,
    columns=(NAME, text_column("Type", "type"), Column("Data", lambda secret, now: len(secret.get("data", ()))), AGE),
    selectable={"type": selectable("type")},
    check_name=check_dns1123_subdomain,
)

SERVICE_ACCOUNTS = Resource(
    group="",
    version="v1",
    kind="ServiceAccount",
    plural="serviceaccounts",
    singular="serviceaccount",
    namespaced=True,
    short_names=("sa",),
    subresources=("token",),
    columns=(NAME, Column("Secrets", lambda account, now: len(account.get("secrets", ()))), AGE),
    check_name=check_dns1123_subdomain,
)
