"""The configuration in force, kept up to date from the objects of the cluster.

An invalid set of objects leaves the last valid configuration in force. The definitions of the objects may be installed
later than the speaker starts, or in part: a kind that the API server does not serve has no objects.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Callable
from typing import Any, Final

from bridgehead.client import ApiClient, Informer
from bridgehead.client.errors import ClientError
from bridgehead.objects import metallb, openelb
from bridgehead.objects.core import Node
from bridgehead.objects.kinds import CONFIG_MAPS, Kind
from bridgehead.objects.meta import ObjectKey, ObjectReference

from ..configuration import ConfigurationObjects, NodeFacts, compile_configuration
from ..errors import ConfigurationInvalid
from ..model import Configuration
from ..ranges import IpAddress

log = logging.getLogger(__name__)

_DISCOVERY_SECONDS: Final = 0.5
_FIRST_SECONDS: Final = 5.0  # in which kinds that are not served yet delay the first configuration
_QUIET_SECONDS: Final = 0.02  # changes that follow each other sooner are compiled together
# The names are those of the fields of `ConfigurationObjects`.
_METALLB: Final[dict[str, Kind[Any]]] = {
    "pools": metallb.IP_ADDRESS_POOLS,
    "layer2_advertisements": metallb.L2_ADVERTISEMENTS,
    "bgp_advertisements": metallb.BGP_ADVERTISEMENTS,
    "peers": metallb.BGP_PEERS,
    "bfd_profiles": metallb.BFD_PROFILES,
    "communities": metallb.COMMUNITIES,
}
_OPENELB: Final[dict[str, Kind[Any]]] = {
    "eips": openelb.EIPS,
    "bgp_confs": openelb.BGP_CONFS,
    "openelb_peers": openelb.BGP_PEERS,
}


class ConfigurationWatch:
    """Calls `on_change` with each new valid configuration. `nodes` is an informer that the caller runs."""

    def __init__(
        self,
        client: ApiClient,
        namespace: str,
        nodes: Informer[Node],
        on_change: Callable[[Configuration], None],
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._nodes = nodes
        self._on_change = on_change
        self._informers: dict[str, Informer[Any]] = {
            name: Informer(client, kind, namespace) for name, kind in _METALLB.items()
        }
        self._informers |= {name: Informer(client, kind) for name, kind in _OPENELB.items()}
        self._config_map = Informer(client, CONFIG_MAPS, namespace, field_selector="metadata.name=config")
        self._wake = asyncio.Event()
        self._configuration: Configuration | None = None
        self._last_error = ""

    @property
    def error(self) -> str:
        """Why the objects, as they are now, are not in force; "" if they are."""
        return self._last_error

    def peer_reference(self, name: str) -> ObjectReference | None:
        """Return a reference to the object that a peer of the configuration was made from; None if it is gone."""
        for source, namespace in (("peers", self._namespace), ("openelb_peers", "")):
            informer = self._informers[source]
            found = informer.get(ObjectKey(namespace, name))
            if found is not None:
                kind = informer.kind
                return ObjectReference(
                    api_version=kind.api_version,
                    kind=kind.name,
                    name=name,
                    namespace=namespace,
                    uid=found.metadata.uid,
                    resource_version=found.metadata.resource_version,
                )
        return None

    async def run(self) -> None:
        """Follow the objects until cancelled."""
        self._nodes.on_change(self._node_changed)
        async with asyncio.TaskGroup() as tasks:
            self._start(self._config_map, tasks)
            tasks.create_task(self._discover(tasks))
            tasks.create_task(self._compile())

    def _start(self, informer: Informer[Any], tasks: asyncio.TaskGroup) -> None:
        informer.on_change(lambda old, new: self._wake.set())
        tasks.create_task(informer.run())

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if (
            old is None
            or new is None
            or (old.metadata.labels, old.internal_ips)
            != (
                new.metadata.labels,
                new.internal_ips,
            )
        ):
            self._wake.set()

    async def _discover(self, tasks: asyncio.TaskGroup) -> None:
        """Start the informer of each kind as soon as the API server serves it."""
        missing = dict(self._informers)
        while missing:
            served = set[tuple[str, str, str]]()
            for group, version in {(i.kind.group, i.kind.version) for i in missing.values()}:
                served |= await self._served(group, version)
            for name, informer in list(missing.items()):
                kind = informer.kind
                if (kind.group, kind.version, kind.plural) in served:
                    self._start(informer, tasks)
                    del missing[name]
            if missing:
                await asyncio.sleep(_DISCOVERY_SECONDS)

    async def _served(self, group: str, version: str) -> set[tuple[str, str, str]]:
        try:
            found = await self._client.request("GET", f"/apis/{group}/{version}")
        except ClientError as error:
            log.debug("%s/%s: %s", group, version, error)
            return set()
        return {(group, version, resource["name"]) for resource in found.get("resources", ())}

    async def _compile(self) -> None:
        try:
            async with asyncio.timeout(_FIRST_SECONDS):
                await self._nodes.wait_synced()
                await self._config_map.wait_synced()
                for informer in self._informers.values():
                    await informer.wait_synced()
        except TimeoutError:
            log.warning("some kinds of configuration objects are not served by the API server yet")
        while True:
            self._wake.clear()
            self._apply()
            await self._wake.wait()
            await asyncio.sleep(_QUIET_SECONDS)

    def _apply(self) -> None:
        try:
            compiled = compile_configuration(self._objects())
        except ConfigurationInvalid as error:
            if str(error) != self._last_error:
                self._last_error = str(error)
                log.error("the configuration is invalid, the last valid one stays in force: %s", error)
            return
        self._last_error = ""
        if compiled.configuration != self._configuration:
            self._configuration = compiled.configuration
            self._on_change(compiled.configuration)

    def _objects(self) -> ConfigurationObjects:
        objects: dict[str, Any] = {name: tuple(informer.items()) for name, informer in self._informers.items()}
        return ConfigurationObjects(
            namespace=self._namespace,
            config_map=next(iter(self._config_map.items()), None),
            nodes={
                node.metadata.name: NodeFacts(node.metadata.labels, tuple(_parse(ip) for ip in node.internal_ips))
                for node in self._nodes.items()
            },
            **objects,
        )


def _parse(text: str) -> IpAddress:
    return ipaddress.ip_address(text)
