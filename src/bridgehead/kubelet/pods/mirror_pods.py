"""Mirror pods: objects in the API that show the static pods of a node.

Pure: no I/O, no clock, no randomness. Called by `static_pods` and the kubelet. Source: kubelet's `pod.mirrorClient`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bridgehead.objects.core import Pod
from bridgehead.objects.critical_pods import MIRROR_POD

from .static_manifest import StaticPod


def new_mirror(static: StaticPod, node_uid: str) -> dict[str, Any]:
    """Return the mirror pod of a static pod, which its Node owns."""
    metadata = static.body["metadata"]
    owner = {
        "apiVersion": "v1",
        "kind": "Node",
        "name": static.pod.spec.node_name,
        "uid": node_uid,
        "controller": True,
    }
    annotations = {**metadata["annotations"], MIRROR_POD: static.uid}
    return {
        "metadata": {**metadata, "annotations": annotations, "ownerReferences": [owner]},
        "spec": static.body["spec"],
    }


def mirrored_uid(pod: Pod) -> str:
    """Return the uid of the static pod that a pod of the API server mirrors, "" for any other pod."""
    return pod.metadata.annotations.get(MIRROR_POD, "")


def with_local_uid(pod: Pod) -> Pod:
    """Return the pod with the uid under which its node runs it: a mirror pod has that of its static pod."""
    uid = mirrored_uid(pod)
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, uid=uid)) if uid else pod
