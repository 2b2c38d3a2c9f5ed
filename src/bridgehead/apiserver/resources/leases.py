"""Lease (coordination.k8s.io/v1): its entry in the table."""

from __future__ import annotations

from bridgehead.apiserver.resource import Resource
from bridgehead.objects.names import check_dns1123_subdomain

from .columns import AGE, NAME, text_column

RESOURCE = Resource(
    group="coordination.k8s.io",
    version="v1",
    kind="Lease",
    plural="leases",
    singular="lease",
    namespaced=True,
    columns=(NAME, text_column("Holder", "spec", "holderIdentity"), AGE),
    check_name=check_dns1123_subdomain,
)
