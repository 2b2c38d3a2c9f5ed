"""Cache of an informer: objects by key, with indexes.

Handlers are called after the cache and its indexes have been updated.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from bridgehead.objects.meta import Object, ObjectKey

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Object)
Handler = Callable[[T | None, T | None], None]
IndexFunction = Callable[[T], Iterable[str]]


class InformerCache(Generic[T]):
    """Objects by key. `name` is used in log lines."""

    def __init__(self, name: str, indexes: Mapping[str, IndexFunction[T]] | None = None) -> None:
        self._name = name
        self._objects: dict[ObjectKey, T] = {}
        self._indexes: dict[str, _Index[T]] = {}
        self._handlers: list[Handler[T]] = []
        for index, function in (indexes or {}).items():
            self.add_index(index, function)

    def add_index(self, name: str, function: IndexFunction[T]) -> None:
        """Add an index over all present and future objects, or replace the one of the same name."""
        index = self._indexes[name] = _Index(function)
        for key, obj in self._objects.items():
            index.add(key, obj)

    def on_change(self, handler: Handler[T]) -> None:
        """Call `handler(None, obj)` now for every object, and `handler(old, new)` for every change from now on."""
        self._handlers.append(handler)
        for obj in list(self._objects.values()):
            self._call(handler, None, obj)

    def get(self, key: ObjectKey) -> T | None:
        return self._objects.get(key)

    def keys(self) -> Iterable[ObjectKey]:
        return self._objects.keys()

    def items(self) -> Iterable[T]:
        return self._objects.values()

    def by_index(self, index: str, value: str) -> list[T]:
        return [self._objects[key] for key in self._indexes[index].keys(value)]

    def __len__(self) -> int:
        return len(self._objects)

    def put(self, obj: T) -> None:
        """Add or replace an object. A known resourceVersion is ignored; another uid means removal and addition."""
        key = obj.key
        old = self._objects.get(key)
        if old is not None:
            if old.metadata.uid != obj.metadata.uid:
                self.remove(key)
                old = None
            elif old.metadata.resource_version == obj.metadata.resource_version:
                return
        self._objects[key] = obj
        for index in self._indexes.values():
            index.replace(key, old, obj)
        self._notify(old, obj)

    def remove(self, key: ObjectKey) -> None:
        old = self._objects.pop(key, None)
        if old is not None:
            for index in self._indexes.values():
                index.remove(key, old)
            self._notify(old, None)

    def replace_all(self, objects: Iterable[T]) -> None:
        """Replace all objects: handlers are called for the differences only."""
        wanted = {obj.key: obj for obj in objects}
        for key in [key for key in self._objects if key not in wanted]:
            self.remove(key)
        for obj in wanted.values():
            self.put(obj)

    def _notify(self, old: T | None, new: T | None) -> None:
        for handler in self._handlers:
            self._call(handler, old, new)

    def _call(self, handler: Handler[T], old: T | None, new: T | None) -> None:
        try:
            handler(old, new)
        except Exception:
            obj = new if new is not None else old
            log.exception("%s: a handler failed on %s", self._name, obj.key if obj is not None else None)


class _Index(Generic[T]):
    """Keys of objects by indexed value, in the order of their addition. A single key needs no dict: most have one."""

    def __init__(self, function: IndexFunction[T]) -> None:
        self._function = function
        self._keys: dict[str, ObjectKey | dict[ObjectKey, None]] = {}

    def keys(self, value: str) -> Iterable[ObjectKey]:
        found = self._keys.get(value, {})
        return (found,) if isinstance(found, ObjectKey) else found

    def add(self, key: ObjectKey, obj: T) -> None:
        self._move(key, (), self._function(obj))

    def remove(self, key: ObjectKey, obj: T) -> None:
        self._move(key, self._function(obj), ())

    def replace(self, key: ObjectKey, old: T | None, new: T) -> None:
        self._move(key, () if old is None else self._function(old), self._function(new))

    def _move(self, key: ObjectKey, before: Iterable[str], after: Iterable[str]) -> None:
        before, after = set(before), dict.fromkeys(after)
        for value in before:
            if value not in after:
                keys = self._keys[value]
                if isinstance(keys, dict) and len(keys) > 1:
                    del keys[key]
                else:
                    del self._keys[value]
        for value in after:
            if value not in before:
                found = self._keys.setdefault(value, key)
                if isinstance(found, dict):
                    found[key] = None
                elif found != key:
                    self._keys[value] = {found: None, key: None}
