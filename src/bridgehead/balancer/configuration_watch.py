"""The configuration, compiled again whenever its objects change. Used by the controller and by every speaker.

An invalid set of objects leaves the last valid configuration in force. The definitions of the objects may be installed
later than the part starts, or in part: a kind that the API server does not serve has no objects.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from bridgehead.backoff import Backoff
from bridgehead.client import ApiClient, Informer
from bridgehead.client.errors import ClientError
from bridgehead.objects import metallb, openelb
from bridgehead.objects.core import Node
from bridgehead.objects.endpoint_slices import EndpointSlice, index_by_service, service_selector
from bridgehead.objects.kinds import CONFIG_MAPS, ENDPOINT_SLICES, SERVICE_CIDRS, Kind
from bridgehead.objects.meta import Object, ObjectKey, ObjectReference

from .configuration import Compiled, ConfigurationObjects, NodeFacts, compile_configuration
from .configuration.inputs import about
from .configuration.legacy_config_map import NAME as CONFIG_MAP_NAME
from .errors import ConfigurationInvalid
from .kinds_in_use import KindsInUse, kind_name
from .ranges import AddressRange, IpAddress, parse_range

log = logging.getLogger(__name__)

_DISCOVERY_SECONDS: Final = 0.5
_LONGEST_DISCOVERY_SECONDS: Final = 5.0  # many speakers may wait for kinds that nobody installs
_DISCOVERY_FACTOR: Final = 1.4
_FIRST_SECONDS: Final = 5.0  # in which kinds that are not served yet delay the first configuration
_API_SERVICE: Final = ObjectKey("default", "kubernetes")
_QUIET_SECONDS: Final = 0.02  # changes that follow each other sooner are compiled together
# The names are those of the fields of `ConfigurationObjects`.
_KINDS: Final[dict[str, Kind[Any]]] = {
    "pools": metallb.IP_ADDRESS_POOLS,
    "layer2_advertisements": metallb.L2_ADVERTISEMENTS,
    "bgp_advertisements": metallb.BGP_ADVERTISEMENTS,
    "peers": metallb.BGP_PEERS,
    "bfd_profiles": metallb.BFD_PROFILES,
    "communities": metallb.COMMUNITIES,
    "eips": openelb.EIPS,
    "bgp_confs": openelb.BGP_CONFS,
    "openelb_peers": openelb.BGP_PEERS,
}


class ConfigurationWatch:
    """Calls `on_valid` with each new result, and `on_invalid` after each change of objects that are not valid.

    `nodes` is an informer that the caller runs, as `slices` is, if it has all EndpointSlices with the index "service".
    `sees_all_namespaces`: the results name objects of MetalLB's kinds that do not count because they are in another
    namespace. `kinds_in_use`: the only kinds that are followed; None: all that the API server serves.
    """

    def __init__(
        self,
        client: ApiClient,
        namespace: str,
        nodes: Informer[Node],
        on_valid: Callable[[Compiled], None],
        on_invalid: Callable[[ConfigurationInvalid], None] | None = None,
        *,
        sees_all_namespaces: bool = False,
        slices: Informer[EndpointSlice] | None = None,
        kinds_in_use: KindsInUse | None = None,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._nodes = nodes
        self._on_valid = on_valid
        self._on_invalid = on_invalid
        self._informers: dict[str, Informer[Any]] = {
            name: Informer(client, kind, namespace if kind.namespaced and not sees_all_namespaces else "", few=True)
            for name, kind in _KINDS.items()
        }
        self._config_map = Informer(
            client, CONFIG_MAPS, namespace, field_selector=f"metadata.name={CONFIG_MAP_NAME}", few=True
        )
        self._runs_slices = slices is None
        # An informer without objects is false.
        self._slices: Informer[EndpointSlice] = (
            slices
            if slices is not None
            else Informer(
                client,
                ENDPOINT_SLICES,
                _API_SERVICE.namespace,
                label_selector=service_selector(_API_SERVICE.name),
                indexes={"service": index_by_service},
            )
        )
        self._service_ranges = Informer(client, SERVICE_CIDRS, few=True)
        self._has_service_ranges = False  # Kubernetes before 1.33 does not serve them
        self._kinds_in_use = kinds_in_use
        self._lacks_kinds = False  # of those that the balancer's controller installs, when looked for last
        self._may_be_installed = asyncio.Event()
        self.on_compiled: Callable[[], None] = lambda: None  # called after each compilation, valid or not
        self._wake = asyncio.Event()
        self._last: Compiled | str | None = None

    @property
    def error(self) -> str:
        """Why the objects, as they are now, are not in force; "" if they are."""
        return self._last if isinstance(self._last, str) else ""

    @property
    def api_addresses(self) -> frozenset[str]:
        """The addresses of the API servers: those of the Service `kubernetes`, and those of the client."""
        found = {str(address) for slice_ in self._api_slices() for address in _endpoint_addresses(slice_)}
        hosts = tuple(urlsplit(server).hostname or "" for server in self._client.config.servers)
        return frozenset({*found, *map(str, parse_addresses(hosts))})

    @property
    def pools(self) -> Informer[metallb.IPAddressPool]:
        return self._informers["pools"]

    @property
    def layer2_advertisements(self) -> Informer[metallb.L2Advertisement]:
        return self._informers["layer2_advertisements"]

    @property
    def eips(self) -> Informer[openelb.Eip]:
        return self._informers["eips"]

    def eip_reference(self, name: str) -> ObjectReference | None:
        """Return a reference to an Eip; None if it is gone."""
        eip = self.eips.get(ObjectKey("", name))
        return about(eip) if eip is not None else None

    def peer_reference(self, name: str) -> ObjectReference | None:
        """Return a reference to the object that a peer of the configuration was made from; None if it is gone."""
        for field, namespace in (("peers", self._namespace), ("openelb_peers", "")):
            found = self._informers[field].get(ObjectKey(namespace, name))
            if found is not None:
                return about(found)
        return None

    @property
    def lacks_kinds(self) -> bool:
        """Whether the balancer's controller has not installed all kinds yet, as far as is known."""
        return self._lacks_kinds or (self._kinds_in_use is not None and self._kinds_in_use.is_awaited)

    async def wait_installed(self) -> None:
        """Wait until the balancer's controller has installed the kinds, unless that cannot be known."""
        await self._may_be_installed.wait()

    async def wait_read(self) -> None:
        """Wait until the objects of all kinds have been read."""
        for informer in (self._config_map, *self._informers.values()):
            await informer.wait_synced()
        if self._has_service_ranges:
            await self._service_ranges.wait_synced()

    def names_in_use(self) -> frozenset[str]:
        """Return the kinds of which there are objects, for `KindsInUse`."""
        informers: tuple[Informer[Any], ...] = (self._config_map, self._service_ranges, *self._informers.values())
        return frozenset(kind_name(informer.kind) for informer in informers if len(informer))

    async def run(self) -> None:
        """Follow the objects until cancelled."""
        self._nodes.on_change(self._node_changed)
        async with asyncio.TaskGroup() as tasks:
            self._slices.on_change(self._slice_changed)
            if self._runs_slices:
                tasks.create_task(self._slices.run(), name="informer endpointslices")
            tasks.create_task(self._start_informers(tasks), name="kinds")
            await self._wait_synced()
            while True:
                self._wake.clear()
                self._compile()
                self.on_compiled()
                await self._wake.wait()
                await asyncio.sleep(_QUIET_SECONDS)

    def _start(self, informer: Informer[Any], tasks: asyncio.TaskGroup) -> None:
        informer.on_change(self._object_changed)
        tasks.create_task(informer.run(), name=f"informer {informer.kind.plural}")

    async def _start_informers(self, tasks: asyncio.TaskGroup) -> None:
        missing: list[Informer[Any]] = [self._config_map, *self._informers.values(), self._service_ranges]
        if self._kinds_in_use is not None:
            await self._start_used(self._kinds_in_use, missing, tasks)
        if self._config_map in missing:
            self._start(self._config_map, tasks)
            missing.remove(self._config_map)
        await self._discover(missing, tasks)

    async def _start_used(self, kinds: KindsInUse, missing: list[Informer[Any]], tasks: asyncio.TaskGroup) -> None:
        """Start the informer of each kind as soon as there are objects of it. Return if the controller names no kinds.

        `missing` are the informers that do not run yet.
        """
        while True:
            if kinds.are_all:
                return
            if kinds.is_known:
                self._may_be_installed.set()
            kinds.changed.clear()
            for informer in tuple(missing):
                if informer.kind in kinds:
                    self._start(informer, tasks)
                    missing.remove(informer)
            await kinds.changed.wait()

    async def _discover(self, missing: list[Informer[Any]], tasks: asyncio.TaskGroup) -> None:
        """Start the informer of each kind as soon as the API server serves it."""
        self._may_be_installed.set()
        backoff = Backoff(_DISCOVERY_SECONDS, _LONGEST_DISCOVERY_SECONDS, factor=_DISCOVERY_FACTOR)
        while True:
            served: set[tuple[str, str]] = set()
            wanted = {(informer.kind.group, informer.kind.version) for informer in missing}
            for group, version in wanted & await self._served_versions():
                served |= await self._served(group, version)
            for informer in missing:
                if (informer.kind.api_version, informer.kind.plural) in served:
                    self._has_service_ranges |= informer is self._service_ranges
                    self._start(informer, tasks)
            missing = [
                informer for informer in missing if (informer.kind.api_version, informer.kind.plural) not in served
            ]
            self._lacks_kinds = any(informer is not self._service_ranges for informer in missing)
            if not self._lacks_kinds:
                return
            await asyncio.sleep(backoff.next())

    async def _served_versions(self) -> set[tuple[str, str]]:
        """Return the groups with their versions: one request, whatever the number of groups that are awaited."""
        try:
            found = await self._client.request("GET", "/apis")
        except ClientError as error:
            log.debug("/apis: %s", error)
            return set()
        return {
            (group["name"], version["version"])
            for group in found.get("groups", ())
            for version in group.get("versions", ())
        }

    async def _served(self, group: str, version: str) -> set[tuple[str, str]]:
        try:
            found = await self._client.request("GET", f"/apis/{group}/{version}")
        except ClientError as error:
            log.debug("%s/%s: %s", group, version, error)
            return set()
        return {(f"{group}/{version}", resource["name"]) for resource in found.get("resources", ())}

    async def _wait_synced(self) -> None:
        await self._nodes.wait_synced()
        kinds = self._kinds_in_use
        try:
            async with asyncio.timeout(_FIRST_SECONDS):
                await self._slices.wait_synced()
                if kinds is not None:
                    await self._may_be_installed.wait()
                if kinds is None or kinds.are_all:
                    await self.wait_read()
                else:
                    for informer in (self._config_map, *self._informers.values(), self._service_ranges):
                        if informer.kind in kinds:
                            await informer.wait_synced()
        except TimeoutError:
            log.warning("some kinds of configuration objects are not served by the API server yet")

    def objects(self) -> ConfigurationObjects:
        """Return the objects as they are now, without those that are being deleted."""
        found: dict[str, Any] = {
            name: tuple(obj for obj in informer.items() if obj.metadata.deletion_timestamp is None)
            for name, informer in self._informers.items()
        }
        return ConfigurationObjects(
            namespace=self._namespace,
            config_map=next(iter(self._config_map.items()), None),
            nodes={
                node.metadata.name: NodeFacts(node.metadata.labels, tuple(parse_addresses(node.internal_ips)))
                for node in self._nodes.items()
            },
            reserved=tuple(self._reserved()),
            **found,
        )

    def _reserved(self) -> Iterator[tuple[AddressRange, str]]:
        """Yield ranges that no pool may contain, each with a description."""
        for slice_ in self._api_slices():
            for address in _endpoint_addresses(slice_):
                yield AddressRange(address.version, int(address), int(address)), "an address of the API server"
        for service_range in self._service_ranges.items():
            for text in service_range.spec.cidrs:
                yield parse_range(text), f"an address of the Service range {text}"
        for node in self._nodes.items():  # the proxies do not let a Service have such an address
            for text in node.spec.pod_cidrs:
                with contextlib.suppress(ValueError):
                    yield parse_range(text), f"an address of the range of pods {text}"

    def _api_slices(self) -> Iterable[EndpointSlice]:
        """Return the EndpointSlices of the API servers' Service."""
        return self._slices.by_index("service", str(_API_SERVICE))

    def _slice_changed(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        either = new if new is not None else old
        if either is not None and either.service_key == _API_SERVICE:
            self._object_changed(old, new)

    def _object_changed(self, old: Object | None, new: Object | None) -> None:
        """Compile again unless only the status or other metadata changed, as the controller's reports do."""
        if old is None or new is None or _content(old) != _content(new):
            self._wake.set()

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if old is None or new is None or _node_facts(old) != _node_facts(new):
            self._wake.set()

    def _compile(self) -> None:
        try:
            compiled = compile_configuration(self.objects())
        except ConfigurationInvalid as error:
            if self._last != str(error):
                self._last = str(error)
                log.error("the configuration is invalid, the last valid one stays in force: %s", error)
            if self._on_invalid is not None:
                self._on_invalid(error)
            return
        if self._last != compiled:
            self._last = compiled
            self._on_valid(compiled)


def parse_addresses(texts: tuple[str, ...]) -> Iterator[IpAddress]:
    """Yield the texts that are addresses."""
    for text in texts:
        try:
            yield ipaddress.ip_address(text)
        except ValueError:
            continue


def _endpoint_addresses(slice_: EndpointSlice) -> Iterator[IpAddress]:
    for endpoint in slice_.endpoints:
        yield from parse_addresses(endpoint.addresses)


def _content(obj: Object) -> tuple[object, ...]:
    meta = obj.metadata
    content = [getattr(obj, field, None) for field in ("spec", "data", "endpoints")]
    return meta.uid, meta.labels, meta.annotations, meta.deletion_timestamp, *content


def _node_facts(node: Node) -> tuple[object, ...]:
    return node.metadata.labels, node.internal_ips, node.spec.pod_cidrs
