"""The pods behind each Service, with notification of every change that may affect its endpoints.

Shared by the Endpoints and the EndpointSlice controller (`informers.derived(ServicePods)`). Other changes cause no
notification: a pod without an address, a container's restart count, a Service's status.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from bridgehead.controllers.shared_informers import Informers
from bridgehead.objects.core import Pod, Service
from bridgehead.objects.kinds import PODS, SERVICES
from bridgehead.objects.meta import ObjectKey

from . import zone_hints
from .endpoint_pods import may_receive, pod_ips, wants_endpoints
from .selected_pods import Memberships

# (service, urgent): a change is urgent unless all it does is add endpoints.
Listener = Callable[[ObjectKey, bool], None]


class ServicePods:
    """The pods of each Service, from the informers of pods and Services."""

    def __init__(self, informers: Informers) -> None:
        self._memberships = Memberships()
        self._listeners: list[Listener] = []
        self._selection_listeners: list[Callable[[ObjectKey], None]] = []
        self._pods = informers.get(PODS)
        informers.get(SERVICES).on_change(self._service_changed)
        self._pods.on_change(self._pod_changed)

    def on_change(self, listener: Listener) -> None:
        """Call `listener(service, urgent)` when the Service or the endpoint fields of its pods have changed.

        A change of the Service itself or the loss of a ready endpoint is urgent. A new ready endpoint may wait for
        others.
        """
        self._listeners.append(listener)

    def on_selection(self, listener: Callable[[ObjectKey], None]) -> None:
        """Call `listener(service)` when a pod is selected or not any more, or has finished, even without addresses."""
        self._selection_listeners.append(listener)

    def unfinished(self, service: ObjectKey) -> Iterator[Pod]:
        """Return the pods that the Service selects, without those that have finished, in any order."""
        for key in self._memberships.pods_of(service):
            pod = self._pods.get(key)
            if pod is not None and not pod.is_finished:
                yield pod

    def of(self, service: ObjectKey) -> list[Pod]:
        """Return the pods that the Service selects, sorted by name."""
        found = (self._pods.get(key) for key in sorted(self._memberships.pods_of(service)))
        return [pod for pod in found if pod is not None]

    def services_of(self, pod: ObjectKey) -> Iterable[ObjectKey]:
        return self._memberships.services_of(pod)

    def _service_changed(self, old: Service | None, new: Service | None) -> None:
        service = new or old
        if service is None:
            return
        self._memberships.set_service(
            service.key, new.spec.selector if new is not None and wants_endpoints(new) else {}
        )
        if old is None or new is None or _relevant_fields(old) != _relevant_fields(new):
            self._notify((service.key,), urgent=True)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is None:
            return
        before = frozenset(self._memberships.services_of(pod.key))
        if old is None or new is None or old.metadata.labels != new.metadata.labels:
            self._memberships.set_pod(pod.key, new.metadata.labels if new is not None else None)
        after = self._memberships.services_of(pod.key)
        has_finished = old is not None and new is not None and old.is_finished != new.is_finished
        for service in before | after if has_finished else before ^ after:
            for on_selection in self._selection_listeners:
                on_selection(service)
        contributed, contributes = _contribution(old), _contribution(new)
        if contributed != contributes:
            self._notify(before | after, urgent=_serves(old))
        elif contributes is not None:
            self._notify(before ^ after, urgent=_serves(old))

    def _notify(self, services: Iterable[ObjectKey], urgent: bool) -> None:
        for service in services:
            for listener in self._listeners:
                listener(service, urgent)


def _relevant_fields(service: Service) -> object:
    """Return the fields of a Service on which its endpoints depend."""
    meta = service.metadata
    return service.spec, meta.labels, meta.uid, meta.deletion_timestamp, zone_hints.is_wanted(service)


def _contribution(pod: Pod | None) -> object:
    """Return the fields of a pod, without labels, on which endpoints depend; None for a pod that is no endpoint."""
    if pod is None or not may_receive(pod, include_terminating=True):
        return None
    spec = pod.spec
    return tuple(pod_ips(pod)), pod.is_ready, pod.is_terminating, spec.node_name, spec.hostname, spec.subdomain


def _serves(pod: Pod | None) -> bool:
    return pod is not None and pod.is_ready and not pod.is_terminating
