"""The policy of a store, at the revision of the store: each write counts for the requests after it."""

from __future__ import annotations

from bridgehead.apiserver.resources import rbac
from bridgehead.storage import Change as StoredChange
from bridgehead.storage import Overflow, Store, TooOld, Watch

from .rbac_authorizer import Policy

_ROLES = (rbac.CLUSTER_ROLES.id, rbac.ROLES.id)
_BINDINGS = (rbac.CLUSTER_ROLE_BINDINGS.id, rbac.ROLE_BINDINGS.id)


class StoredPolicy:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._policy = Policy()
        self._watches: dict[str, Watch] = {}
        self._revision = -1

    def current(self) -> Policy:
        """Return the policy at the store's revision."""
        revision = self._store.revision
        if revision != self._revision:
            self._follow()
            self._revision = revision
        return self._policy

    def _follow(self) -> None:
        try:
            if not self._watches:
                self._load()
            for resource, watch in self._watches.items():
                for change in watch.pending():
                    self._take(resource, change)
        except (Overflow, TooOld):
            self._load()

    def _load(self) -> None:
        """Begin again with what is stored."""
        for watch in self._watches.values():
            watch.close()
        self._policy, self._watches = Policy(), {}
        for resource in (*_ROLES, *_BINDINGS):
            self._watches[resource] = self._store.watch(resource, since=self._store.revision)
            put = self._policy.put_role if resource in _ROLES else self._policy.put_binding
            for record in self._store.list(resource):
                put(record.key.namespace, record.key.name, record.value)

    def _take(self, resource: str, change: StoredChange) -> None:
        policy, key = self._policy, change.record.key
        if change.type == "DELETED":
            remove = policy.remove_role if resource in _ROLES else policy.remove_binding
            remove(key.namespace, key.name)
        else:
            put = policy.put_role if resource in _ROLES else policy.put_binding
            put(key.namespace, key.name, change.record.value)
