"""Index of the pods that each Service selects, updated by each change. Used by `service_pods`.

A changed pod is not compared with all Services, nor a changed Service with all pods: a Service is indexed by the rarest
label of its selector, a pod by all its labels. Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Set
from typing import TypeVar

from bridgehead.objects.meta import ObjectKey

Labels = Mapping[str, str]
_K = TypeVar("_K", bound=Hashable)
_Label = tuple[str, str, str]  # namespace, key, value

_NONE: frozenset[ObjectKey] = frozenset()


class Memberships:
    """Pods and Services by key. A Service selects pods of its own namespace only."""

    def __init__(self) -> None:
        self._selectors: dict[ObjectKey, Labels] = {}
        self._indexed_by: dict[ObjectKey, _Label] = {}
        self._services: dict[_Label, set[ObjectKey]] = {}
        self._labels: dict[ObjectKey, Labels] = {}
        self._pods: dict[_Label, set[ObjectKey]] = {}
        self._members: dict[ObjectKey, set[ObjectKey]] = {}
        self._memberships: dict[ObjectKey, set[ObjectKey]] = {}

    def pods_of(self, service: ObjectKey) -> Set[ObjectKey]:
        return self._members.get(service, _NONE)

    def services_of(self, pod: ObjectKey) -> Set[ObjectKey]:
        return self._memberships.get(pod, _NONE)

    def set_service(self, service: ObjectKey, selector: Labels) -> None:
        """Add a Service or change its selector. With an empty selector the Service is removed."""
        if self._selectors.get(service, {}) == selector:
            return
        for pod in self._members.pop(service, ()):
            _discard(self._memberships, pod, service)
        if (label := self._indexed_by.pop(service, None)) is not None:
            _discard(self._services, label, service)
        self._selectors.pop(service, None)
        if not selector:
            return
        self._selectors[service] = dict(selector)
        labels = [(service.namespace, key, value) for key, value in selector.items()]
        label = min(labels, key=lambda label: len(self._services.get(label, ())))
        self._indexed_by[service] = label
        self._services.setdefault(label, set()).add(service)
        by_label = sorted((self._pods.get(label, _NONE) for label in labels), key=len)
        for pod in by_label[0].intersection(*by_label[1:]):
            self._join(service, pod)

    def set_pod(self, pod: ObjectKey, labels: Labels | None) -> None:
        """Add a pod, change its labels or, with None, remove the pod."""
        before, after = self._labels.pop(pod, {}), labels or {}
        for label in before.items() - after.items():
            _discard(self._pods, (pod.namespace, *label), pod)
        for label in after.items() - before.items():
            self._pods.setdefault((pod.namespace, *label), set()).add(pod)
        if labels:
            self._labels[pod] = labels
        selecting = {
            service
            for label in after.items()
            for service in self._services.get((pod.namespace, *label), ())
            if self._selectors[service].items() <= after.items()
        }
        for service in self._memberships.get(pod, _NONE) - selecting:
            _discard(self._memberships, pod, service)
            _discard(self._members, service, pod)
        for service in selecting:
            self._join(service, pod)

    def _join(self, service: ObjectKey, pod: ObjectKey) -> None:
        self._members.setdefault(service, set()).add(pod)
        self._memberships.setdefault(pod, set()).add(service)


def _discard(sets: dict[_K, set[ObjectKey]], key: _K, value: ObjectKey) -> None:
    found = sets.get(key)
    if found is not None:
        found.discard(value)
        if not found:
            del sets[key]
