"""Other balancers for the same objects: pods of MetalLB and OpenELB themselves.

In a lab, most pods of their manifests run stand-ins, which give out and announce nothing. Real ones are those whose
image was pulled.

Pure: no I/O, no clock, no randomness. Source: the manifests and Helm charts of MetalLB 0.9 to 0.15, OpenELB 0.4 to 0.6.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from bridgehead.objects.core import Container, Pod

# Labels that the pods have in manifests and in charts.
LABEL_SELECTORS: Final = (
    "app in (metallb, openelb, openelb-manager)",
    "app.kubernetes.io/name in (metallb, openelb)",
)
_IMAGE: Final = re.compile(
    r"(?:^|[/-])(?:metallb[/-](?:controller|speaker)|openelb(?:-(?:controller|speaker|manager))?)(?:[:@]|$)"
)
_STAND_IN: Final = "bridgehead-stand-in://"  # of an imageID in a lab


def find_other(pods: Iterable[Pod], lb_class: str, known: Collection[str] = ()) -> Pod | None:
    """Return a pod of a real MetalLB or OpenELB that serves Services of this class, the first by name; None without.

    A pod counts from when it is ready until its containers end, so that one that fails again and again does not count.
    `known`: the uids of those that counted before.
    """
    found = [
        pod
        for pod in pods
        if (pod.is_ready or pod.metadata.uid in known) and any(_runs(pod, lb_class, is_stand_in=False))
    ]
    return min(found, key=lambda pod: pod.key, default=None)


def stand_ins(pods: Iterable[Pod]) -> frozenset[str]:
    """Return the uids of the pods in which stand-ins of MetalLB's and OpenELB's parts run."""
    return frozenset(pod.metadata.uid for pod in pods if any(_runs(pod, None, is_stand_in=True)))


def _runs(pod: Pod, lb_class: str | None, *, is_stand_in: bool) -> Iterator[bool]:
    if pod.is_finished:
        return
    states = {status.name: status for status in pod.status.container_statuses}
    for container in pod.spec.containers:
        status = states.get(container.name)
        if status is None or status.state.running is None or not _IMAGE.search(container.image):
            continue
        serves_class = lb_class is None or class_of(container) == lb_class
        yield serves_class and status.image_id.startswith(_STAND_IN) == is_stand_in


def class_of(container: Container) -> str:
    """Return the loadBalancerClass that MetalLB's container serves; "": Services without one. Go's flags have one or
    two hyphens."""
    command = (*container.command, *container.args)
    for index, word in enumerate(command):
        name, equals, value = word.partition("=")
        if name in ("-lb-class", "--lb-class"):
            return value if equals else "".join(command[index + 1 : index + 2])
    return ""
