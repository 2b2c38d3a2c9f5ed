"""Creates a ServiceAccount `default` in every namespace, for pods that name none.

Source: kube-controller-manager's serviceaccount-controller.
"""

from __future__ import annotations

import contextlib

from bridgehead.client import ApiClient, Done, EventRecorder, Outcome, WorkQueue
from bridgehead.client.errors import AlreadyExists
from bridgehead.controllers.shared_informers import Informers
from bridgehead.objects.core import Namespace, ServiceAccount
from bridgehead.objects.kinds import NAMESPACES, SERVICE_ACCOUNTS
from bridgehead.objects.meta import ObjectKey, ObjectMeta

NAME = "default"


class ServiceAccountController:
    """Creates the accounts. The keys of its queue are namespace names."""

    def __init__(self, client: ApiClient, informers: Informers, recorder: EventRecorder) -> None:
        self._client = client
        self._namespaces = informers.get(NAMESPACES)
        self._accounts = informers.get(SERVICE_ACCOUNTS)
        self._queue: WorkQueue[str] = WorkQueue("serviceaccounts")
        self._namespaces.on_change(self._namespace_changed)
        self._accounts.on_change(self._account_changed)

    async def run(self) -> None:
        await self._namespaces.wait_synced()
        await self._accounts.wait_synced()
        await self._queue.run(self.reconcile)

    def _namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        if new is not None:
            self._queue.add(new.metadata.name)

    def _account_changed(self, old: ServiceAccount | None, new: ServiceAccount | None) -> None:
        if old is not None and new is None and old.metadata.name == NAME:
            self._queue.add(old.metadata.namespace)

    async def reconcile(self, name: str) -> Outcome:
        """Create the account if it is missing. Raises ClientError."""
        namespace = self._namespaces.get(ObjectKey("", name))
        if namespace is None or namespace.metadata.deletion_timestamp or self._accounts.get(ObjectKey(name, NAME)):
            return Done()
        with contextlib.suppress(AlreadyExists):
            await self._client.create(SERVICE_ACCOUNTS, ServiceAccount(metadata=ObjectMeta(name=NAME, namespace=name)))
        return Done()
