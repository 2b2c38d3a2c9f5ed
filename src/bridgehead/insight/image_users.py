"""Workloads whose pods use an image.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from bridgehead.images.references import parse_reference
from bridgehead.objects.meta import ObjectMeta, PodTemplate


class ImageUser(NamedTuple):
    """A workload. `resource` is kubectl's name: "deployment". `always_pulls`: a container asks the registry first."""

    resource: str
    namespace: str
    name: str
    always_pulls: bool

    @property
    def restart(self) -> str:
        """The command that replaces its pods."""
        return f"kubectl -n {self.namespace} rollout restart {self.resource}/{self.name}"


def find_users(workloads: Iterable[tuple[str, ObjectMeta, PodTemplate]], images: Iterable[str]) -> list[ImageUser]:
    """Return those of the workloads that use one of the images. `images`: names as a content store has them."""
    wanted = set(images)
    found = []
    for resource, meta, template in workloads:
        containers = [
            container
            for container in (*template.spec.get("initContainers", ()), *template.spec.get("containers", ()))
            if (reference := parse_reference(container.get("image", ""))) is not None and reference.key in wanted
        ]
        if containers:
            always = any(container.get("imagePullPolicy") == "Always" for container in containers)
            found.append(ImageUser(resource, meta.namespace, meta.name, always))
    return found
