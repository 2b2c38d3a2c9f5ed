"""Pod (core/v1): its entry in the table."""

from __future__ import annotations

from bridgehead.apiserver.resource import Resource
from bridgehead.objects.names import check_dns1123_subdomain

from .columns import selectable
from .pod_columns import POD_COLUMNS

RESOURCE = Resource(
    group="",
    version="v1",
    kind="Pod",
    plural="pods",
    singular="pod",
    namespaced=True,
    short_names=("po",),
    categories=("all",),
    subresources=("status", "binding", "log", "exec", "attach", "portforward", "eviction"),
    columns=POD_COLUMNS,
    selectable={
        "spec.nodeName": selectable("spec", "nodeName"),
        "spec.restartPolicy": selectable("spec", "restartPolicy"),
        "spec.schedulerName": selectable("spec", "schedulerName"),
        "spec.serviceAccountName": selectable("spec", "serviceAccountName"),
        "spec.hostNetwork": selectable("spec", "hostNetwork", default="false"),
        "status.phase": selectable("status", "phase"),
        "status.podIP": selectable("status", "podIP"),
        "status.nominatedNodeName": selectable("status", "nominatedNodeName"),
    },
    check_name=check_dns1123_subdomain,
)
