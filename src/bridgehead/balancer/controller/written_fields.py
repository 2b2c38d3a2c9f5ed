"""Fields that a balancer has written into objects of others, and the patches that remove them.

The API server records who wrote each field (`managedFields`), by the user agent of the request. The controller
therefore needs no memory of its own, and leaves what others wrote, such as the addresses that MetalLB itself has given.

Pure: no I/O, no clock, no randomness. Source: Kubernetes, "Server-Side Apply", fieldsV1.
"""

from __future__ import annotations

from typing import Any, Final

from bridgehead.objects.address_holders import EIP_NAME_ANNOTATION, POOL_ANNOTATION

from .service_patches import CONDITION, EIP_FINALIZER, SERVICE_FINALIZER

Json = dict[str, Any]

# The names of the user agents of `bridgehead balancer` and `bridgehead speaker`.
MANAGERS: Final = frozenset({"bridgehead-balancer", "metallb-speaker"})


def is_written(obj: Json, *path: str) -> bool:
    """Whether a balancer or a speaker has written the field of an object, or a part of it. `path`: of fieldsV1."""
    for entry in obj.get("metadata", {}).get("managedFields") or ():
        if entry.get("manager") not in MANAGERS:
            continue
        fields = entry.get("fieldsV1")
        for step in path:
            fields = fields.get(step) if isinstance(fields, dict) else None
        if fields is not None:
            return True
    return False


def service_metadata_patch(service: Json) -> Json | None:
    """Return the merge patch without OpenELB's label and finalizer, as far as the balancer wrote them; None without."""
    return _metadata_patch(service, SERVICE_FINALIZER, labels=(EIP_NAME_ANNOTATION,))


def service_status_patch(service: Json, *, keeps_address: bool) -> Json | None:
    """Return the merge patch of `status` without the condition and, unless `keeps_address`, without the address and the
    name of its pool; None if the balancer wrote none of them."""
    status: Json = {}
    before = service.get("status", {}).get("conditions") or []
    conditions = [one for one in before if one.get("type") != CONDITION]
    if len(conditions) < len(before):
        status["conditions"] = conditions or None
    patch: Json = {}
    if not keeps_address:
        if is_written(service, "f:status", "f:loadBalancer"):
            status["loadBalancer"] = None
        if is_written(service, "f:metadata", "f:annotations", f"f:{POOL_ANNOTATION}"):
            patch["metadata"] = {"annotations": {POOL_ANNOTATION: None}}
    if status:
        patch["status"] = status
    return _at_version(service, patch)


def eip_metadata_patch(eip: Json) -> Json | None:
    """Return the merge patch without OpenELB's finalizer; None if the balancer did not write it."""
    return _metadata_patch(eip, EIP_FINALIZER)


def status_removal(obj: Json) -> Json | None:
    """Return the merge patch of `status` that removes it; None if no balancer wrote it."""
    return _at_version(obj, {"status": None} if obj.get("status") and is_written(obj, "f:status") else {})


def _metadata_patch(obj: Json, finalizer: str, labels: tuple[str, ...] = ()) -> Json | None:
    meta = obj.get("metadata", {})
    changes: Json = {}
    finalizers = meta.get("finalizers") or []
    if finalizer in finalizers and is_written(obj, "f:metadata", "f:finalizers", f'v:"{finalizer}"'):
        changes["finalizers"] = [name for name in finalizers if name != finalizer] or None
    written = [name for name in labels if name in (meta.get("labels") or {})]
    written = [name for name in written if is_written(obj, "f:metadata", "f:labels", f"f:{name}")]
    if written:
        changes["labels"] = dict.fromkeys(written)
    return _at_version(obj, {"metadata": changes} if changes else {})


def _at_version(obj: Json, patch: Json) -> Json | None:
    """Make the patch a conflict if the object is another one by now: lists are replaced as a whole."""
    if not patch:
        return None
    version = obj.get("metadata", {}).get("resourceVersion", "")
    return {**patch, "metadata": {**patch.get("metadata", {}), "resourceVersion": version}}
