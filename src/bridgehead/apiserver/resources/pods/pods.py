"""Pod (core/v1): its entry in the table and its hooks.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field, FieldError
from bridgehead.apiserver.resource import JsonObject, Resource, Strategy
from bridgehead.apiserver.resources.shared.columns import selectable
from bridgehead.objects.names import check_dns1123_subdomain
from bridgehead.objects.taints import NOT_READY, UNREACHABLE

from .annotation_validation import set_app_armor_fields, validate_annotation_changes
from .disabled_fields import drop_disabled_fields, drop_disabled_status_fields
from .ephemeral_validation import SUBRESOURCE, validate_added, with_ephemeral_only
from .label_keys import merge_label_keys
from .pod_columns import POD_COLUMNS
from .pod_defaults import set_pod_defaults, set_spec_defaults
from .pod_only_validation import validate_created_pod, validate_pod
from .pod_qos import qos_class
from .pod_validation import validate_pod_update
from .pod_warnings import warn_of_pod
from .resize_validation import RESIZE, validate_resize, with_resources_only
from .status_validation import keep_generations, validate_status_update

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

    def prepare_create(self, obj: JsonObject) -> list[FieldError]:
        drop_disabled_fields(obj["spec"])
        merge_label_keys(obj["spec"], obj["metadata"].get("labels", {}))
        _add_default_tolerations(obj["spec"])
        obj["status"] = {"phase": "Pending", "qosClass": qos_class(obj["spec"])}
        if obj["spec"].get("schedulingGates"):
            created = obj.get("metadata", {}).get("creationTimestamp")
            obj["status"]["conditions"] = [{**_GATED, "lastTransitionTime": created} if created else dict(_GATED)]
        annotations = obj["metadata"].get("annotations")
        return set_app_armor_fields(annotations, obj["spec"]) if annotations else []

    def prepare_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> None:
        if subresource == "status":
            obj["spec"] = old.get("spec", {})
            status, before = obj.setdefault("status", {}), old.get("status", {})
            status.setdefault("phase", before.get("phase", "Pending"))
            status.setdefault("qosClass", before.get("qosClass") or qos_class(obj["spec"]))
            drop_disabled_status_fields(status)
            keep_generations(status, before)
        elif subresource == SUBRESOURCE:
            with_ephemeral_only(obj, old)
        elif subresource == RESIZE:
            with_resources_only(obj, old)
        elif subresource == "":
            drop_disabled_fields(obj["spec"], old.get("spec", {}))
            _add_default_tolerations(obj["spec"])
            obj["status"] = old.get("status", {})

    # The hook `validate` is not used: writes of the status and bindings do not validate the rest of the pod.

    def validate_create(self, obj: Field) -> None:
        validate_pod(obj)
        validate_created_pod(obj)

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        annotations, before = obj.at("metadata").at("annotations", {}), old["metadata"].get("annotations", {})
        spec, spec_before = obj.at("spec", {}), old.get("spec", {})
        if subresource == "status":
            validate_annotation_changes(annotations, before)
            validate_status_update(obj, old)
            return
        # A stored pod may break a rule that came later. It must still lose its finalizers.
        is_same = spec.value == spec_before and annotations.value == before
        if subresource != "binding" and not is_same:
            validate_pod(obj)
        if subresource == SUBRESOURCE:
            validate_added(obj, old)
        elif subresource == RESIZE:
            validate_resize(obj, old)
        else:
            validate_annotation_changes(annotations, before)
            validate_pod_update(spec, spec_before, binds=subresource == "binding")

    def warnings(self, obj: JsonObject) -> list[str]:
        return warn_of_pod(obj)

    def update_warnings(self, obj: JsonObject, old: JsonObject) -> list[str]:
        return []


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
