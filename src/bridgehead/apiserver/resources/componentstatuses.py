"""ComponentStatus (core/v1): its entry in the table, read-only.

The kind is deprecated since Kubernetes 1.19. The API server lists its store under Kubernetes' name, `etcd-0`. The
server has no connection to controllers and schedulers. Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.apiserver.resource import Column, JsonObject, Resource
from bridgehead.objects.names import check_dns1123_subdomain

from .shared.columns import NAME
from .shared.conditions import find_condition

# An API server without a working store does not answer at all.
STORE: JsonObject = {
    "metadata": {"name": "etcd-0"},
    "conditions": [{"type": "Healthy", "status": "True", "message": "ok"}],
}


def _condition(component: JsonObject) -> JsonObject:
    return find_condition(component.get("conditions"), "Healthy") or {}


def _status_cell(component: JsonObject, now: float) -> str:
    status = _condition(component).get("status")
    return "Unknown" if status is None else "Healthy" if status == "True" else "Unhealthy"


RESOURCE = Resource(
    group="",
    version="v1",
    kind="ComponentStatus",
    plural="componentstatuses",
    singular="componentstatus",
    namespaced=False,
    short_names=("cs",),
    columns=(
        NAME,
        Column("Status", _status_cell),
        Column("Message", lambda component, now: str(_condition(component).get("message", ""))),
        Column("Error", lambda component, now: str(_condition(component).get("error", ""))),
    ),
    warning="v1 ComponentStatus is deprecated in v1.19+",
    is_read_only=True,
    check_name=check_dns1123_subdomain,
)
