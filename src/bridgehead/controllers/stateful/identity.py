"""Identities of a StatefulSet's pods: names, ordinals, labels, host names, and claims from templates.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/controller/statefulset/stateful_set_utils.go` (v1.36).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from bridgehead.controllers.adoption import controller_reference
from bridgehead.objects.apps import ControllerRevision, StatefulSet
from bridgehead.objects.core import Pod
from bridgehead.objects.kinds import STATEFUL_SETS
from bridgehead.objects.meta import ObjectMeta, PodTemplate

# Label of a pod: the name of its revision. Label of a revision: the hash of its template.
REVISION_LABEL: Final = "controller-revision-hash"
HASH_LABEL: Final = "controller.kubernetes.io/hash"
POD_NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"


def ordinal_of(stateful_set: StatefulSet, pod: Pod) -> int | None:
    """Return the number at the end of the pod's name; None for a name that the StatefulSet does not give."""
    parent, dash, digits = pod.metadata.name.rpartition("-")
    is_number = digits.isascii() and digits.isdigit() and str(int(digits[:10])) == digits
    return int(digits) if dash and is_number and parent == stateful_set.metadata.name else None


def revision_of(pod: Pod) -> str:
    return pod.metadata.labels.get(REVISION_LABEL, "")


def template_of(revision: ControllerRevision) -> PodTemplate:
    """Return the pod template of a revision."""
    return msgspec.convert(revision.data.get("spec", {}).get("template", {}), PodTemplate)


def claim_names(stateful_set: StatefulSet, ordinal: int) -> dict[str, str]:
    """Return the names of a pod's claims by the names of their templates, which are those of the pod's volumes."""
    name = f"{stateful_set.metadata.name}-{ordinal}"
    return {one.metadata.name: f"{one.metadata.name}-{name}" for one in stateful_set.spec.volume_claim_templates}


def identity_labels(pod_name: str, ordinal: int) -> dict[str, str]:
    return {POD_NAME_LABEL: pod_name, INDEX_LABEL: str(ordinal)}


def new_pod(stateful_set: StatefulSet, revision: ControllerRevision, ordinal: int) -> dict[str, Any]:
    """Return the pod to create for an ordinal, of the template of `revision`."""
    template = template_of(revision)
    name = f"{stateful_set.metadata.name}-{ordinal}"
    labels = {**identity_labels(name, ordinal), REVISION_LABEL: revision.metadata.name}
    metadata = _metadata(stateful_set, template.metadata, name, labels)
    metadata["ownerReferences"] = [msgspec.to_builtins(controller_reference(STATEFUL_SETS, stateful_set))]
    claims = claim_names(stateful_set, ordinal)
    volumes = [{"name": volume, "persistentVolumeClaim": {"claimName": claim}} for volume, claim in claims.items()]
    # A claim takes the place of a volume of its name in the template.
    volumes += [volume for volume in template.spec.get("volumes", ()) if volume.get("name") not in claims]
    spec = {**template.spec, "hostname": name}
    if stateful_set.spec.service_name:
        spec["subdomain"] = stateful_set.spec.service_name
    if volumes:
        spec["volumes"] = volumes
    return {"metadata": metadata, "spec": spec}


def new_claims(stateful_set: StatefulSet, ordinal: int) -> list[dict[str, Any]]:
    """Return the claims of a pod, without owners."""
    names = claim_names(stateful_set, ordinal)
    labels = stateful_set.spec.selector.match_labels
    return [
        {
            "metadata": _metadata(stateful_set, template.metadata, names[template.metadata.name], labels),
            "spec": template.spec,
        }
        for template in stateful_set.spec.volume_claim_templates
    ]


def _metadata(stateful_set: StatefulSet, template: ObjectMeta, name: str, labels: dict[str, str]) -> dict[str, Any]:
    """Return the metadata of an object that is made of a template."""
    return {
        "name": name,
        "namespace": stateful_set.metadata.namespace,
        "labels": {**template.labels, **labels},
        "annotations": template.annotations,
        "finalizers": list(template.finalizers),
    }
