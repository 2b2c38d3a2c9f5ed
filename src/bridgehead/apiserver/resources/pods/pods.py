"""Pod (core/v1): its entry in the table and its hooks.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Mapping

from bridgehead.apiserver.resource import FieldError, JsonObject, Resource, Strategy
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.columns import selectable
from bridgehead.objects.critical_pods import MIRROR_POD
from bridgehead.objects.names import check_dns1123_subdomain
from bridgehead.objects.taints import NOT_READY, UNREACHABLE

from .disabled_fields import drop_disabled_fields
from .ephemeral_validation import SUBRESOURCE, validate_added, validate_new_pod, with_ephemeral_only
from .pod_columns import POD_COLUMNS
from .pod_defaults import set_pod_defaults, set_spec_defaults
from .pod_qos import qos_class
from .pod_validation import validate_pod_spec, validate_pod_update
from .pod_warnings import warn_of_pod_spec
from .resize_validation import RESIZE, validate_resize, with_resources_only
from .volume_validation import validate_image_references

_EVICTION_SECONDS = 300
_TOLERATED_TAINTS = (NOT_READY, UNREACHABLE)
_GATED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


class PodStrategy(Strategy):
    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        set_spec_defaults(spec)
        set_pod_defaults(spec)

    def prepare_create(self, obj: JsonObject) -> None:
        drop_disabled_fields(obj["spec"])
        _add_default_tolerations(obj["spec"])
        obj["status"] = {"phase": "Pending", "qosClass": qos_class(obj["spec"])}
        if obj["spec"].get("schedulingGates"):
            created = obj.get("metadata", {}).get("creationTimestamp")
            obj["status"]["conditions"] = [{**_GATED, "lastTransitionTime": created} if created else dict(_GATED)]

    def prepare_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> None:
        if subresource == "status":
            obj["spec"] = old.get("spec", {})
            obj.setdefault("status", {}).setdefault("phase", old.get("status", {}).get("phase", "Pending"))
            obj["status"].setdefault("qosClass", qos_class(obj["spec"]))
        elif subresource == SUBRESOURCE:
            with_ephemeral_only(obj, old)
        elif subresource == RESIZE:
            with_resources_only(obj, old)
        elif subresource == "":
            drop_disabled_fields(obj["spec"])
            _add_default_tolerations(obj["spec"])
            obj["status"] = old.get("status", {})

    def validate(self, obj: JsonObject) -> list[FieldError]:
        return validate_pod_spec("spec", obj.get("spec", {}))

    def validate_create(self, obj: JsonObject) -> list[FieldError]:
        spec = obj.get("spec", {})
        return [*validate_new_pod(spec), *validate_image_references("spec.volumes", spec.get("volumes", ()))]

    def validate_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> list[FieldError]:
        if subresource == SUBRESOURCE:
            return validate_added(obj, old)
        if subresource == RESIZE:
            return validate_resize(obj, old)
        errors = validate_pod_update(obj.get("spec", {}), old.get("spec", {}), binds=subresource == "binding")
        return [*errors, *_validate_mirror_annotation(_annotations(obj), _annotations(old))]

    def warnings(self, obj: JsonObject) -> list[str]:
        return warn_of_pod_spec("spec", obj.get("spec", {}))


def _annotations(pod: JsonObject) -> Mapping[str, str]:
    annotations: Mapping[str, str] = pod["metadata"].get("annotations", {})
    return annotations


def _validate_mirror_annotation(new: Mapping[str, str], old: Mapping[str, str]) -> list[FieldError]:
    """A node may create and delete mirror pods, so whether a pod is one never changes."""
    if new.get(MIRROR_POD) == old.get(MIRROR_POD):
        return []
    what = (
        "may not remove or update mirror pod annotation" if MIRROR_POD in old else "may not add mirror pod annotation"
    )
    return [field.forbidden(f"metadata.annotations[{MIRROR_POD}]", what)]


def _add_default_tolerations(spec: JsonObject) -> None:
    """Add default tolerations: a pod stays five minutes on a lost node (admission plug-in DefaultTolerationSeconds)."""
    tolerations = spec.get("tolerations", [])
    for key in _TOLERATED_TAINTS:
        if not any(
            (toleration.get("key") or key) == key and toleration.get("effect", "") in ("", "NoExecute")
            for toleration in tolerations
        ):
            spec.setdefault("tolerations", []).append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _EVICTION_SECONDS}
            )
            tolerations = spec["tolerations"]


RESOURCE = Resource(
    group="",
    version="v1",
    kind="Pod",
    plural="pods",
    singular="pod",
    namespaced=True,
    short_names=("po",),
    categories=("all",),
    subresources=(
        "status",
        "binding",
        "log",
        "exec",
        "attach",
        "portforward",
        "proxy",
        "eviction",
        SUBRESOURCE,
        RESIZE,
    ),
    columns=POD_COLUMNS,
    strategy=PodStrategy(),
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
    # Kubernetes allows selectors by all addresses, but gives no pod a value for them.
    field_aliases={"spec.host": "spec.nodeName", "status.podIPs": ""},
    has_generation=True,
    returns_deleted=True,
    check_name=check_dns1123_subdomain,
    kept_by_status=("ownerReferences",),
)
