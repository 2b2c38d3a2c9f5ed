"""Namespace (core/v1): its entry in the table."""

from __future__ import annotations

from bridgehead.apiserver.resource import Resource
from bridgehead.objects.names import check_dns1123_label

from .columns import AGE, NAME, selectable, text_column

RESOURCE = Resource(
    group="",
    version="v1",
    kind="Namespace",
    plural="namespaces",
    singular="namespace",
    namespaced=False,
    short_names=("ns",),
    subresources=("status", "finalize"),
    columns=(NAME, text_column("Status", "status", "phase"), AGE),
    selectable={"status.phase": selectable("status", "phase")},
    check_name=check_dns1123_label,
)
