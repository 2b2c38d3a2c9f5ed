"""Rules for pods that pod templates need not follow: some clients fill in templates before they make pods of them.

Called by `pods`. Pure: no I/O, no clock, no randomness. Source: Kubernetes `validatePodMetadataAndSpec`,
`ValidatePodCreate`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field
from bridgehead.objects.names import check_dns1123_subdomain

from .annotation_validation import validate_pod_annotations, validate_profile_annotations
from .ephemeral_validation import validate_new_pod
from .pod_containers import each_container
from .pod_validation import validate_pod_spec
from .volume_validation import validate_image_references


def validate_pod(pod: Field) -> None:
    """Validate a pod without its metadata of the common kind."""
    spec, metadata = pod.at("spec", {}), pod.at("metadata")
    volumes = spec.at("volumes")
    validate_pod_annotations(metadata.at("annotations"), spec.value)
    validate_pod_spec(spec)
    validate_image_references(volumes)
    if not spec.get("serviceAccountName"):
        _validate_token_volumes(volumes)
    for container in each_container(spec):
        image = container.get("image", "")
        if image != image.strip():
            container.at("image").invalid("must not have leading or trailing whitespace")
    if any("ephemeral" in volume for volume in volumes.value or ()):
        _validate_created_claims(volumes, metadata.get("name", ""))


def _validate_created_claims(volumes: Field, pod_name: str) -> None:
    """Validate the claims that ephemeral volumes will get: their names, and that no other volume uses them."""
    created = set()
    for volume in volumes.each():
        if "ephemeral" in volume.value:
            claim = f"{pod_name}-{volume.get('name', '')}"
            created.add(claim)
            for reason in check_dns1123_subdomain(claim):
                volume.at("name", "").invalid(f'PVC name "{claim}": {reason}')
    for volume in volumes.each():
        name = volume.at("persistentVolumeClaim").at("claimName")
        name.must_not_be_in(created, "must not reference a PVC that gets created for an ephemeral volume")


def _validate_token_volumes(volumes: Field) -> None:
    """Validate that a pod without service account asks for no token of one."""
    for volume in volumes.each():
        for source in volume.at("projected").at("sources").each():
            token = source.at("serviceAccountToken")
            token.must_not_exist("must not be specified when serviceAccountName is not set")


def validate_created_pod(pod: Field) -> None:
    """Validate what only new pods must follow."""
    spec = pod.at("spec", {})
    validate_new_pod(spec)
    if spec.get("schedulingGates") and spec.get("nodeName"):
        spec.at("nodeName").forbidden("cannot be set until all schedulingGates have been cleared")
    validate_profile_annotations(spec, pod.at("metadata").get("annotations", {}))
