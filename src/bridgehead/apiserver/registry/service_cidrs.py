"""The ranges of ClusterIPs as ServiceCIDR objects (decision 24).

`ensure_default` creates the range that the server was started with. `ServiceCidrs` keeps the allocator's ranges equal
to the objects, sets their conditions, and drains those that are being deleted.
Source: Kubernetes pkg/controller/servicecidrs, pkg/controlplane/controller/defaultservicecidr.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any

import msgspec

from bridgehead.apiserver.errors import ApiStatus
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.services import IP_ADDRESSES, ServiceRanges, ServiceStrategy
from bridgehead.apiserver.resources.shared.address_rules import parse_ip
from bridgehead.apiserver.resources.shared.conditions import find_condition
from bridgehead.objects.times import format_time, parse_time
from bridgehead.storage import Key, Overflow, StorageError, TooOld

from .registry import Registry
from .write import Write

log = logging.getLogger(__name__)

FINALIZER = "networking.k8s.io/service-cidr-finalizer"
DEFAULT_NAME = "kubernetes"
# A range stays this long after its deletion began, for API servers that may still allocate from it.
GRACE_SECONDS = 10.0

_CIDRS = "servicecidrs.networking.k8s.io"
_CIDR_PATH = ("networking.k8s.io", "v1", "servicecidrs")
_RETRY_SECONDS = 1.0
_READY = {"type": "Ready", "status": "True", "reason": "", "message": "Kubernetes Service CIDR is ready"}
_DEFAULT_READY = {**_READY, "message": "Kubernetes default Service CIDR is ready"}
_TERMINATING = {
    "type": "Ready",
    "status": "False",
    "reason": "Terminating",
    "message": (
        "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR"
    ),
}

_decode = msgspec.json.decode
Network = IPv4Network | IPv6Network


def ranges_of(registry: Registry) -> ServiceRanges | None:
    """Return the ranges from which this server's Services get addresses; None for a table without Services."""
    services = registry.find("", "v1", "services")
    return services.strategy.ranges if services and isinstance(services.strategy, ServiceStrategy) else None


async def ensure_default(registry: Registry) -> None:
    """Create the ServiceCIDR `kubernetes`, and set the allocator's ranges. Raises `ApiStatus`.

    If an earlier start had other ranges, these remain, and the new ones are an object of their own.
    """
    resource, ranges = registry.find(*_CIDR_PATH), ranges_of(registry)
    if resource is None or ranges is None:
        return
    wanted = list(ranges.configured)
    record = registry.store.get(Key(_CIDRS, "", DEFAULT_NAME))
    if record is None:
        await _create_cidr(registry, DEFAULT_NAME, wanted)
    else:
        stored = _decode(record.value)["spec"]["cidrs"]
        if wanted[: len(stored)] == stored and len(wanted) == 2:

            def extend(old: JsonObject) -> JsonObject:
                return {**old, "spec": {**old["spec"], "cidrs": wanted}}

            await registry.update(Write(resource, "", DEFAULT_NAME), extend)
        elif stored[: len(wanted)] != wanted:
            name = "-".join([DEFAULT_NAME, *wanted]).replace("/", "-").replace(".", "-").replace(":", "-")
            if registry.store.get(Key(_CIDRS, "", name)) is None:
                log.warning("the ServiceCIDR %s has %s, not %s: added %s", DEFAULT_NAME, stored, wanted, name)
                await _create_cidr(registry, name, wanted)
    refresh(registry)


async def _create_cidr(registry: Registry, name: str, cidrs: list[str]) -> None:
    resource = registry.find(*_CIDR_PATH)
    if resource is None:
        return
    try:
        obj = {"metadata": {"name": name, "finalizers": [FINALIZER]}, "spec": {"cidrs": cidrs}}
        await registry.create(Write(resource), obj)
    except ApiStatus as status:
        if status.reason != "AlreadyExists":  # another server on the same store was first
            raise


def refresh(registry: Registry) -> None:
    """Set the allocator's ranges to those of the stored objects."""
    ranges = ranges_of(registry)
    if ranges is None:
        return
    ready: list[str] = []
    draining: list[str] = []
    objects = [_decode(record.value) for record in registry.store.list(_CIDRS)]
    objects.sort(key=lambda obj: str(obj["metadata"]["creationTimestamp"]))
    for obj in objects:
        (ready if _is_ready(obj) else draining).extend(str(network) for network in _networks(obj))
    ranges.set(ready, draining)


def _is_ready(cidr: JsonObject) -> bool:
    """Whether addresses may be allocated from a range. A new range has no condition."""
    if "deletionTimestamp" in cidr["metadata"]:
        return False
    conditions = cidr.get("status", {}).get("conditions", ())
    return all(one.get("status") == "True" for one in conditions if one.get("type") == "Ready")


def _networks(cidr: JsonObject) -> list[Network]:
    """Return a range's networks that have room for addresses."""
    networks = [ip_network(text, strict=False) for text in cidr.get("spec", {}).get("cidrs", ())]
    return [one for one in networks if one.num_addresses > (2 if one.version == 4 else 1)]


def may_be_removed(cidr: JsonObject, others: Iterable[JsonObject], addresses: Iterable[str]) -> bool:
    """Whether a range has no address that is in none of the other ranges. `addresses` are read only if needed."""
    kept = [network for other in others if "deletionTimestamp" not in other["metadata"] for network in _networks(other)]
    open_: list[Any] = [
        network
        for network in _networks(cidr)
        if not any(network.version == one.version and network.subnet_of(one) for one in kept)  # type: ignore[arg-type]
    ]
    if not open_:
        return True
    for text in addresses:
        address = parse_ip(text)
        if address is not None and any(address in one for one in open_) and not any(address in one for one in kept):
            return False
    return True


class ServiceCidrs:
    """The controller of ranges."""

    def __init__(self, registry: Registry, grace_seconds: float = GRACE_SECONDS) -> None:
        self._registry = registry
        self._store = registry.store
        self._grace = grace_seconds

    async def run(self) -> None:
        """Follow the objects until cancelled."""
        while True:
            watch = self._store.watch(_CIDRS, since=self._store.revision)
            changes = aiter(watch)
            try:
                pending = True
                while True:
                    if pending:
                        pending = await self._sync_ranges()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_RETRY_SECONDS if pending else None):
                            await anext(changes)
                            pending = True
            except StopAsyncIteration:
                return
            except (Overflow, TooOld):
                continue
            finally:
                watch.close()

    async def _sync_ranges(self) -> bool:
        """Bring all ranges to what they should be; return whether something has to be tried again."""
        refresh(self._registry)
        waits = False
        objects = [_decode(record.value) for record in self._store.list(_CIDRS)]
        for obj in objects:
            try:
                waits |= await self._sync(obj, [other for other in objects if other is not obj])
            except (ApiStatus, StorageError) as error:
                log.warning("cannot update the ServiceCIDR %s: %s", obj["metadata"]["name"], error)
                waits = True
        return waits

    async def _sync(self, obj: JsonObject, others: list[JsonObject]) -> bool:
        name, finalizers = obj["metadata"]["name"], obj["metadata"].get("finalizers", [])
        deleted = obj["metadata"].get("deletionTimestamp")
        if deleted is None:
            if FINALIZER not in finalizers:
                await self._update(name, _with_finalizers([*finalizers, FINALIZER]))
            if not _is_ready(obj) or not obj.get("status", {}).get("conditions"):
                await self._set_condition(name, _DEFAULT_READY if name == DEFAULT_NAME else _READY)
            return False
        if FINALIZER not in finalizers:
            return False
        addresses = (record.key.name for record in self._store.list(IP_ADDRESSES))
        if not may_be_removed(obj, others, addresses):
            await self._set_condition(name, _TERMINATING)
            return True
        if self._registry.clock() < parse_time(deleted) + self._grace:
            return True
        await self._update(name, _with_finalizers([one for one in finalizers if one != FINALIZER]))
        return False

    async def _set_condition(self, name: str, wanted: JsonObject) -> None:
        def change(old: JsonObject) -> JsonObject:
            conditions = old.get("status", {}).get("conditions", [])
            current = find_condition(conditions, "Ready") or {}
            if all(current.get(field) == value for field, value in wanted.items()):
                return old
            since = current.get("lastTransitionTime")
            if current.get("status") != wanted["status"] or since is None:
                since = format_time(self._registry.clock())
            others = [one for one in conditions if one.get("type") != "Ready"]
            return {**old, "status": {"conditions": [*others, {**wanted, "lastTransitionTime": since}]}}

        await self._update(name, change, "status")

    async def _update(self, name: str, change: Any, subresource: str = "") -> None:
        resource = self._registry.find(*_CIDR_PATH)
        if resource is not None:
            try:
                await self._registry.update(Write(resource, "", name, subresource), change)
            except ApiStatus as status:
                if status.code != 404:
                    raise


def _with_finalizers(finalizers: list[str]) -> Any:
    def change(old: JsonObject) -> JsonObject:
        return {**old, "metadata": {**old["metadata"], "finalizers": finalizers}}

    return change
