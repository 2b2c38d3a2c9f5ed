"""ServiceAccount (core/v1): its entry in the table.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.apiserver.resource import Column, Resource
from bridgehead.apiserver.resources.shared.columns import AGE, NAME
from bridgehead.objects.names import check_dns1123_subdomain

RESOURCE = Resource(
    group="",
    version="v1",
    kind="ServiceAccount",
    plural="serviceaccounts",
    singular="serviceaccount",
    namespaced=True,
    short_names=("sa",),
    subresources=("token",),
    columns=(NAME, Column("Secrets", lambda account, now: len(account.get("secrets", ()))), AGE),
    returns_deleted=True,
    check_name=check_dns1123_subdomain,
)
