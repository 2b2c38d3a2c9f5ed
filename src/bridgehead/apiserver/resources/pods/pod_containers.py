"""The containers of a pod spec, with their paths.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `VisitContainersWithPath`.
"""

from __future__ import annotations

from collections.abc import Iterator

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject

_LISTS = ("initContainers", "containers", "ephemeralContainers")


def visit_containers(path: str, spec: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    """Yield the path and the container, for init containers, containers and ephemeral containers of a pod spec."""
    for kind in _LISTS:
        for index, container in enumerate(spec.get(kind, ())):
            yield f"{path}.{kind}[{index}]", container


def each_container(spec: Field) -> Iterator[Field]:
    """Yield the same containers of a pod spec under validation."""
    for kind in _LISTS:
        yield from spec.at(kind).each()
