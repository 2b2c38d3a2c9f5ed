"""The table of the resources that a server serves. Resources can be added, exchanged and removed while it runs.

A resource that is served in several versions has one entry for each, all with the same id. The readers (registry,
discovery, OpenAPI) look into the table for each request or compare `revision`; work that must follow a change at once
is a listener. Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from .resource import Resource

Path = tuple[str, str, str]

_VERSION = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?")
_STAGES = {None: 0, "beta": 1, "alpha": 2}


class ResourceTable:
    """Resources by path and by id, in the order in which they were added."""

    def __init__(self, resources: Iterable[Resource] = ()) -> None:
        self._by_path: dict[Path, Resource] = {}
        self._by_id: dict[str, tuple[Resource, ...]] = {}
        self._listeners: list[Callable[[], None]] = []
        self.revision = 0
        self._add(tuple(resources))

    def __iter__(self) -> Iterator[Resource]:
        return iter(tuple(self._by_path.values()))

    def __len__(self) -> int:
        return len(self._by_path)

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        return self._by_path.get((group, version, plural))

    def has_built_in(self, group: str, version: str | None = None) -> bool:
        """Whether the table has a resource of the group, or of this version of it, that no definition made."""
        return any(
            resource.group == group and version in (None, resource.version) and resource.definition is None
            for resource in self._by_path.values()
        )

    def by_id(self, id: str) -> Resource:
        """Return the resource of an id such as `deployments.apps`; of several versions the first. Raises KeyError."""
        return self._by_id[id][0]

    def versions(self, id: str) -> tuple[Resource, ...]:
        """Return the resources of an id, one for each version; none for an unknown id."""
        return self._by_id.get(id, ())

    def add(self, *resources: Resource) -> None:
        """Add resources. Raises ValueError for a group, version and plural that the table has."""
        self._add(resources)
        self._notify()

    def replace(self, id: str, *resources: Resource) -> None:
        """Exchange all versions of an id in one step. Raises ValueError for a path that another resource has."""
        old = self._by_id.get(id, ())
        self._remove(id)
        try:
            self._add(resources)
        except ValueError:
            self._add(old)
            raise
        self._notify()

    def remove(self, id: str) -> None:
        """Remove all versions of an id. Does nothing for an unknown one."""
        if id in self._by_id:
            self._remove(id)
            self._notify()

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each change."""
        self._listeners.append(listener)

    def _add(self, resources: tuple[Resource, ...]) -> None:
        paths = [_path(resource) for resource in resources]
        for index, path in enumerate(paths):
            if path in self._by_path or path in paths[:index]:
                raise ValueError(f"the table has two resources {path[2]} in {path[0] or 'core'}/{path[1]}")
        for path, resource in zip(paths, resources, strict=True):
            self._by_path[path] = resource
            self._by_id[resource.id] = (*self._by_id.get(resource.id, ()), resource)

    def _remove(self, id: str) -> None:
        for resource in self._by_id.pop(id, ()):
            del self._by_path[_path(resource)]

    def _notify(self) -> None:
        self.revision += 1
        for listener in self._listeners:
            listener()


def version_order(version: str) -> tuple[int, int, int, str]:
    """Return a key that sorts versions by preference: v2, v1, v2beta1, v1beta2, v1alpha1, then others by name.

    Source: apimachinery/pkg/version/helpers.go.
    """
    parsed = _VERSION.fullmatch(version)
    if parsed is None:
        return len(_STAGES), 0, 0, version
    major, stage, minor = parsed.groups()
    return _STAGES[stage], -int(major), -int(minor or 0), version


def _path(resource: Resource) -> Path:
    return resource.group, resource.version, resource.plural
