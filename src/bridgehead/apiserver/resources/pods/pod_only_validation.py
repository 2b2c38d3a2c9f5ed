"""Rules for pods that pod templates need not follow: some clients fill in templates before they make pods of them.

Called by `pods`. Pure: no I/O, no clock, no randomness. Source: Kubernetes `validatePodMetadataAndSpec`,
`ValidatePodCreate`.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field
from bridgehead.objects.names import check_dns1123_subdomain

from .annotation_validation import validate_pod_annotations, validate_profile_annotations
from .ephemeral_validation import validate_new_pod
from .pod_containers import visit_containers
from .pod_validation import validate_pod_spec
from .volume_validation import validate_image_references


def validate_pod(pod: JsonObject) -> list[FieldError]:
    """Validate a pod without its metadata of the common kind."""
    spec, metadata = pod.get("spec", {}), pod.get("metadata", {})
    errors = []
    if annotations := metadata.get("annotations"):
        errors += validate_pod_annotations("metadata.annotations", annotations, spec)
    errors += validate_pod_spec("spec", spec)
    if volumes := spec.get("volumes"):
        errors += validate_image_references("spec.volumes", volumes)
        errors += _validate_token_volumes(spec)
    for path, container in visit_containers("spec", spec):
        image = container.get("image", "")
        if image != image.strip():
            errors.append(field.invalid(f"{path}.image", image, "must not have leading or trailing whitespace"))
    if any("ephemeral" in volume for volume in volumes or ()):
        errors += _validate_created_claims("spec.volumes", volumes, metadata.get("name", ""))
    return errors


def _validate_created_claims(path: str, volumes: Sequence[JsonObject], pod_name: str) -> list[FieldError]:
    """Validate the claims that ephemeral volumes will get: their names, and that no other volume uses them."""
    errors = []
    created = set()
    for index, volume in enumerate(volumes):
        if "ephemeral" in volume:
            name = volume.get("name", "")
            claim = f"{pod_name}-{name}"
            created.add(claim)
            reasons = [f'PVC name "{claim}": {reason}' for reason in check_dns1123_subdomain(claim)]
            errors += field.invalid_for(f"{path}[{index}].name", name, reasons)
    detail = "must not reference a PVC that gets created for an ephemeral volume"
    errors.extend(
        field.invalid(f"{path}[{index}].persistentVolumeClaim.claimName", claim, detail)
        for index, volume in enumerate(volumes)
        if (claim := volume.get("persistentVolumeClaim", {}).get("claimName")) in created
    )
    return errors


def _validate_token_volumes(spec: JsonObject) -> list[FieldError]:
    """Validate that a pod without service account asks for no token of one."""
    if spec.get("serviceAccountName"):
        return []
    return [
        field.forbidden(
            f"spec.volumes[{index}].projected.sources[{position}].serviceAccountToken",
            "must not be specified when serviceAccountName is not set",
        )
        for index, volume in enumerate(spec["volumes"])
        for position, source in enumerate(volume.get("projected", {}).get("sources", ()))
        if "serviceAccountToken" in source
    ]


def validate_created_pod(pod: JsonObject) -> list[FieldError]:
    """Validate what only new pods must follow."""
    spec = pod.get("spec", {})
    errors = validate_new_pod(spec)
    if spec.get("schedulingGates") and spec.get("nodeName"):
        detail = "cannot be set until all schedulingGates have been cleared"
        errors.append(field.forbidden("spec.nodeName", detail))
    if annotations := pod.get("metadata", {}).get("annotations"):
        errors += validate_profile_annotations("spec", annotations, spec)
    return errors
