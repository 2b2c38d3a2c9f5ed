"""Aggregated ClusterRoles: their rules are those of the ClusterRoles that their selectors select.

`AggregatedRoles` follows the stored ClusterRoles. A change of one concerns the aggregated roles that select it, before
or after the change; others are not looked at.
Source: Kubernetes pkg/controller/clusterroleaggregation.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

import msgspec

from bridgehead.apiserver.errors import ApiStatus
from bridgehead.apiserver.fieldmanagement.managers import Writer
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources import rbac
from bridgehead.objects.meta import LabelSelector
from bridgehead.objects.selectors import Selector, compile_selector
from bridgehead.storage import Change, Key, Overflow, Record, StorageError, TooOld

from .registry import Registry
from .write import Write

log = logging.getLogger(__name__)

_ROLES = rbac.CLUSTER_ROLES.id
_WRITER = Writer("clusterrole-aggregation-controller")
_RETRY_SECONDS = 1.0


class _Role(msgspec.Struct, rename="camel"):
    """The fields of a ClusterRole that aggregation needs. The decoder skips the others."""

    aggregation_rule: _AggregationRule | None = None
    rules: list[dict[str, Any]] | None = None


class _AggregationRule(msgspec.Struct, rename="camel"):
    cluster_role_selectors: tuple[LabelSelector, ...] = ()


_decode = msgspec.json.Decoder(_Role).decode


class AggregatedRoles:
    """The controller of aggregated ClusterRoles."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._store = registry.store
        # The selectors of each aggregated role.
        self._selectors: dict[str, tuple[Selector, ...]] = {}

    async def sync(self) -> None:
        """Bring all aggregated roles to what they should be. Raises `ApiStatus`."""
        records = self._store.list(_ROLES)
        self._selectors = {}
        for record in records:
            self._read_selectors(record)
        await self._sync(dict.fromkeys(self._selectors))

    async def run(self) -> None:
        """Follow the stored roles until cancelled."""
        while True:
            watch = self._store.watch(_ROLES, since=self._store.revision)
            try:
                await self._retrying(self.sync)
                async for changes in watch:
                    concerned = dict.fromkeys(name for change in changes for name in self._concerned(change))
                    if concerned:
                        await self._retrying(lambda: self._sync(concerned))  # noqa: B023 (called at once)
                return
            except (Overflow, TooOld):
                continue
            finally:
                watch.close()

    async def _retrying(self, work: Any) -> None:
        while True:
            try:
                await work()
                return
            except (ApiStatus, StorageError) as error:
                log.warning("cannot update aggregated ClusterRoles: %s", error)
                await asyncio.sleep(_RETRY_SECONDS)

    def _concerned(self, change: Change) -> Iterable[str]:
        """Return the aggregated roles that a change concerns, and note the selectors of the changed role."""
        name = change.record.key.name
        if change.type == "DELETED":
            self._selectors.pop(name, None)
        else:
            self._read_selectors(change.record)
            if name in self._selectors:
                yield name
        labels = [record.facts.labels for record in (change.record, change.previous) if record is not None]
        for other, selectors in self._selectors.items():
            if other != name and any(one.matches(each) for one in selectors for each in labels):
                yield other

    def _read_selectors(self, record: Record) -> None:
        self._selectors.pop(record.key.name, None)
        # Nearly all roles have none, and need not be decoded.
        if b'"aggregationRule"' not in record.value:
            return
        rule = _decode(record.value).aggregation_rule
        if rule is not None:
            self._selectors[record.key.name] = tuple(_compile(one) for one in rule.cluster_role_selectors)

    async def _sync(self, names: Iterable[str]) -> None:
        """Update aggregated roles, and then those that select them, until none changes."""
        waiting = dict.fromkeys(names)
        while waiting:
            name = next(iter(waiting))
            del waiting[name]
            record = self._store.get(Key(_ROLES, "", name))
            if record is None or name not in self._selectors:
                continue
            rules = self._gather(name)
            # Compared without their order: roles that select each other then always come to an end.
            if _as_set(rules) == _as_set(_decode(record.value).rules or []):
                continue
            await self._write(name, rules)
            labels = record.facts.labels
            for other, selectors in self._selectors.items():
                if other != name and any(one.matches(labels) for one in selectors):
                    waiting[other] = None

    def _gather(self, name: str) -> list[dict[str, Any]]:
        """Return the rules of all roles that an aggregated role selects, each once."""
        rules: dict[bytes, dict[str, Any]] = {}
        records = self._store.list(_ROLES)
        for selector in self._selectors[name]:
            for record in records:
                if record.key.name != name and selector.matches(record.facts.labels):
                    for rule in _decode(record.value).rules or ():
                        rules.setdefault(_canonical(rule), rule)
        return list(rules.values())

    async def _write(self, name: str, rules: list[dict[str, Any]]) -> None:
        def change(old: JsonObject) -> JsonObject:
            return {**old, "rules": rules}

        resource = self._registry.find(rbac.GROUP, "v1", rbac.CLUSTER_ROLES.plural)
        if resource is None:
            return
        try:
            await self._registry.update(Write(resource, "", name, writer=_WRITER), change)
        except ApiStatus as status:
            if status.code != 404:
                raise


def _compile(selector: LabelSelector) -> Selector:
    try:
        return compile_selector(selector)
    except ValueError:  # stored by a previous version: this one refuses it
        return Selector(selects_nothing=True)


def _canonical(rule: dict[str, Any]) -> bytes:
    return msgspec.json.encode(rule, order="sorted")


def _as_set(rules: Iterable[dict[str, Any]]) -> set[bytes]:
    return {_canonical(rule) for rule in rules}
