"""The reconciler of a speaker: from the watch and the failure detector to the announcers.

Informers mark changed Services; one consumer makes their publications anew and gives them, with the present view of the
cluster, to every announcer. A change of one Service costs the work of one Service.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from bridgehead.balancer.announcer import Announcer, EventReport, Follower, HandsOver, Held, Starts
from bridgehead.balancer.compiled_configuration import Configuration
from bridgehead.balancer.configuration import Compiled, compile_for_start
from bridgehead.balancer.configuration_watch import ConfigurationWatch
from bridgehead.balancer.detection.detector import Detector
from bridgehead.balancer.errors import ConfigurationInvalid
from bridgehead.balancer.view import ClusterView, NodeView, Publication
from bridgehead.client import ApiClient, EventRecorder, Informer, reference_to
from bridgehead.heap import trim_heap
from bridgehead.objects.address_holders import assigned_addresses, external_addresses
from bridgehead.objects.core import Node, Service
from bridgehead.objects.endpoint_slices import EndpointSlice, index_by_service
from bridgehead.objects.kinds import ENDPOINT_SLICES, NODES, SERVICES
from bridgehead.objects.meta import ObjectKey, ObjectReference

from .announced_services import node_view, publication_of
from .failure_detection import MemberChange, Members, MemberWatch
from .speakers_secret import SpeakersSecret
from .takeovers import Takeovers
from .trimming import trim_service, trim_slice

log = logging.getLogger(__name__)

COMPONENT: Final = "metallb-speaker"  # of Events, as MetalLB's
_ASSIGNED, _EXTERNAL = "assigned", "external"  # Services by addresses of their status, and by externalIPs
_LEAVE_SECONDS: Final = 2.0  # in which other nodes take this one's addresses over before it ends
_LEAVE_POLL_SECONDS: Final = 0.01
_MANY_CHANGES: Final = 100  # Services; so many that the memory for them is worth returning
_TRIM_SECONDS: Final = 5.0  # after many changes: their statuses are written by then


@dataclass(frozen=True)
class SpeakerOptions:
    """Options of a speaker. `port`: of heartbeats (UDP); 0: no failure detection, every Node counts as a member.

    `namespace`: of the objects that people configure.
    `lb_class`: the only spec.loadBalancerClass that is announced; "": Services without one.
    """

    node_name: str
    namespace: str
    port: int
    lb_class: str = ""
    ignore_exclude: bool = False


class SpeakerReconciler:
    """Drives followers, some of them announcers. It is their observer, so they are made after it, and set before `run`.

    `on_held` gets, for each Service whose announcements changed, what this node announces of it. `on_members` is called
    after speakers came or went.
    """

    def __init__(self, client: ApiClient, detector: Detector, options: SpeakerOptions, secret: SpeakersSecret) -> None:
        self._options = options
        self._services: Informer[Service] = Informer(
            client,
            SERVICES,
            indexes={_ASSIGNED: assigned_addresses, _EXTERNAL: external_addresses},
            trim=trim_service,
        )
        self._slices: Informer[EndpointSlice] = Informer(
            client, ENDPOINT_SLICES, indexes={"service": index_by_service}, trim=trim_slice
        )
        self._nodes: Informer[Node] = Informer(client, NODES)
        self.recorder = EventRecorder(client, COMPONENT, options.node_name)
        self.configuration = ConfigurationWatch(
            client,
            options.namespace,
            self._nodes,
            self._configuration_changed,
            self._on_invalid,
            slices=self._slices,
            # Without heartbeats, a speaker needs no controller.
            kinds_in_use=secret.kinds if options.port else None,
        )
        self.members = MemberWatch(secret, detector, options.node_name, options.port, self._members_changed)
        self._detector = detector
        self._in_force: Configuration | None = None
        self._publications: dict[ObjectKey, Publication] = {}
        self._view = ClusterView(options.node_name)
        self._dirty: set[ObjectKey] = set()
        self._nodes_changed = True
        self._leaving: frozenset[str] = frozenset()  # the nodes of which this was reported last
        self._held: dict[ObjectKey, tuple[Held, ...]] = {}
        self._held_count = 0  # of addresses in `_held`
        self._held_dirty: set[ObjectKey] = set()
        self._wake = asyncio.Event()
        self._synced = asyncio.Event()
        self._is_leaving = False
        self._trimming: asyncio.TimerHandle | None = None
        self.takeovers = Takeovers()
        # Sections that announcers add to the status page, by protocol; each value is fit for JSON.
        self.sections: dict[str, Callable[[], Any]] = {}
        self.on_held: list[Callable[[ObjectKey, tuple[Held, ...]], None]] = []
        self.on_members: list[Callable[[], None]] = []
        # Called after each judgement of the configuration, the result of which `configuration.error` has.
        self.on_judged: Callable[[], None] = lambda: None
        self.update_count = self.update_error_count = 0
        self._followers: Sequence[Follower] = ()
        self._announcers: Sequence[Announcer] = ()

    def set_followers(self, followers: Sequence[Follower]) -> None:
        """Update these in this order."""
        self._followers = followers
        self._announcers = [follower for follower in followers if isinstance(follower, Announcer)]

    @property
    def view(self) -> ClusterView:
        """The view of the last update."""
        return self._view

    @property
    def node(self) -> Node | None:
        """Return this node's Node."""
        return self._nodes.get(ObjectKey("", self._options.node_name))

    @property
    def held(self) -> Collection[Held]:
        """Return all that this node announces."""
        return [held for held_of_service in self._held.values() for held in held_of_service]

    @property
    def unstarted_reason(self) -> str:
        """Why another speaker should not be replaced by a new one yet, "" once this one has begun to announce.

        In a new cluster, whose controller installs the definitions of peers, there is nothing to wait for.
        """
        if self.configuration.lacks_kinds:
            return ""
        if not self._synced.is_set():
            return "not all objects are read yet"
        awaited = [
            name for announcer in self._announcers if isinstance(announcer, Starts) for name in announcer.awaited
        ]
        return f"waiting for sessions with {', '.join(awaited)}" if awaited else ""

    @property
    def unready_reason(self) -> str:
        """Why this speaker announces nothing yet; "" once it does."""
        if not self._synced.is_set():
            return "not all objects are read yet"
        if self.members.error:
            return self.members.error
        if self._options.port and not self.members.members.is_known:
            return "waiting for heartbeats" if self.members.has_key else "waiting for the Secret with the speakers' key"
        return ""

    async def run(self) -> None:
        """Announce until cancelled. Raises DetectorEnded."""
        self._services.on_change(self._service_changed)
        self._slices.on_change(self._slice_changed)
        self._nodes.on_change(self._node_changed)
        async with asyncio.TaskGroup() as tasks:
            for informer in (self._services, self._slices, self._nodes):
                tasks.create_task(informer.run())
            tasks.create_task(self.configuration.run())
            tasks.create_task(self.recorder.run())
            tasks.create_task(self._detector.run())
            if self._options.port:
                tasks.create_task(self.members.run())
            for follower in self._followers:
                tasks.create_task(follower.run())
            tasks.create_task(self._consume())

    async def leave(self) -> None:
        """Hand this node's addresses over to others, before `run` is cancelled. Bounded."""
        if not self._synced.is_set():
            return
        self._is_leaving = self._nodes_changed = True
        self.members.leave()
        self._wake.set()
        deadline = time.monotonic() + _LEAVE_SECONDS
        while time.monotonic() < deadline:
            await asyncio.sleep(_LEAVE_POLL_SECONDS)
            if not self._wake.is_set() and not self._is_handing_over:
                return

    @property
    def _is_handing_over(self) -> bool:
        return any(isinstance(announcer, HandsOver) and announcer.is_handing_over for announcer in self._announcers)

    # --- Changes, from the informers and the detector --------------------------------------------------------------

    def _service_changed(self, old: Service | None, new: Service | None) -> None:
        either = new if new is not None else old
        if either is not None:
            self._mark(either.key)
        before, after = (assigned_addresses(one) if one is not None else () for one in (old, new))
        for address in {*before} ^ {*after}:
            for other in self._services.by_index(_EXTERNAL, address):
                self._mark(other.key)

    def _slice_changed(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        for slice_ in (old, new):
            if slice_ is not None and slice_.service_key is not None:
                self._mark(slice_.service_key)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if old is None or new is None or self._node_view(old) != self._node_view(new):
            self._nodes_changed = True
            self._wake.set()

    def _on_invalid(self, error: ConfigurationInvalid) -> None:
        self.update_error_count += 1
        self.on_judged()
        if self._in_force is None:  # without one, this speaker would never be ready, and a lab not start
            self._use(compile_for_start(self.configuration.objects()))

    def _configuration_changed(self, compiled: Compiled) -> None:
        self.update_count += 1
        self.on_judged()
        if compiled.configuration != self._in_force:
            self._use(compiled.configuration)

    def _use(self, configuration: Configuration) -> None:
        self._in_force = configuration
        self._dirty.update(self._services.keys())
        self._wake.set()

    def _members_changed(self, members: Members, changes: list[MemberChange]) -> None:
        self.takeovers.add_changes(changes)
        self._nodes_changed |= members.leaving != self._leaving
        self._leaving = members.leaving
        self._wake.set()

    def _mark(self, key: ObjectKey) -> None:
        self._dirty.add(key)
        self._wake.set()

    # --- The consumer ----------------------------------------------------------------------------------------------

    async def _consume(self) -> None:
        for informer in (self._services, self._slices, self._nodes):
            await informer.wait_synced()
        self.members.set_nodes(self._nodes.items())
        while self._in_force is None:
            self._wake.clear()
            await self._wake.wait()
        log.info("%d Services, %d nodes", len(self._services), len(self._nodes))
        self._update()
        # Other nodes hand addresses over to a speaker that is ready, and wait a second for it. The first update of
        # thousands of Services takes as long on a busy machine.
        self.members.set_ready()
        self._synced.set()
        while True:
            await self._wake.wait()
            self._wake.clear()
            self._update()

    def _update(self) -> None:
        """Bring the announcers up to date with all changes so far."""
        dirty, self._dirty = self._dirty, set()
        self.update_count += len(dirty)
        changed = {key for key in dirty if self._publish(key)}
        if self._publications:
            self.members.set_active()
        before = self._held_count
        self._update_view()
        self._held_dirty.update(changed)
        for follower in self._followers:
            result = follower.update(self._view, self._publications, changed)
            self._held_dirty.update(result.services)
            for event in result.events:
                self.record(event)
        self._report_held()
        self.takeovers.record(self._held_count - before)
        if len(changed) >= _MANY_CHANGES and self._trimming is None:
            self._trimming = asyncio.get_running_loop().call_later(_TRIM_SECONDS, self._trim)

    def _trim(self) -> None:
        self._trimming = None
        trim_heap()

    def _publish(self, key: ObjectKey) -> bool:
        """Make the publication of a Service anew. Return whether it differs from the last one."""
        service = self._services.get(key)
        fresh = None
        if service is not None and self._in_force is not None:
            slices = self._slices.by_index("service", f"{key.namespace}/{key.name}")
            fresh = publication_of(
                service,
                slices,
                self._in_force,
                lb_class=self._options.lb_class,
                is_assigned=lambda address: bool(self._services.by_index(_ASSIGNED, address)),
            )
        if fresh == self._publications.get(key):
            return False
        if fresh is None:
            del self._publications[key]
        else:
            self._publications[key] = fresh
        return True

    def _update_view(self) -> None:
        members = self.members.members
        nodes = self._view.nodes
        if self._nodes_changed:
            self._nodes_changed = False
            self.members.set_nodes(self._nodes.items())
            fresh = {node.metadata.name: self._node_view(node) for node in self._nodes.items()}
            nodes = fresh if fresh != nodes else nodes
        alive = members.alive if self._options.port else frozenset(nodes)
        if alive != self._view.members:
            asyncio.get_running_loop().call_soon(self._call_on_members)
        self._view = replace(
            self._view,
            configuration=self._in_force or Configuration(),
            nodes=nodes,
            members=alive,
            is_isolated=members.is_isolated,
            is_alone=members.is_alone,
        )

    def _call_on_members(self) -> None:
        for handler in self.on_members:
            handler()

    def _node_view(self, node: Node) -> NodeView:
        name = node.metadata.name
        is_ending = name in self.members.members.leaving or (self._is_leaving and name == self._options.node_name)
        return node_view(node, is_ending=is_ending, ignore_exclude=self._options.ignore_exclude)

    # --- What is announced -----------------------------------------------------------------------------------------

    def on_held_changed(self, services: Iterable[ObjectKey]) -> None:
        if not self._held_dirty:
            asyncio.get_running_loop().call_soon(self._report_held)
        self._held_dirty.update(services)

    def _report_held(self) -> None:
        """Compare what the announcers hold with what was reported, for the Services that changed."""
        dirty, self._held_dirty = self._held_dirty, set()
        if not dirty:
            return
        fresh: dict[ObjectKey, list[Held]] = {key: [] for key in dirty}
        for announcer in self._announcers:
            for held in announcer.held(dirty):
                fresh[held.service].append(held)
        for key, found in fresh.items():
            old, new = self._held.pop(key, ()), tuple(found)
            self._held_count += len(new) - len(old)
            if new:
                self._held[key] = new
            for protocol in _protocols(new) - _protocols(old):
                message = f'announcing from node "{self._options.node_name}" with protocol "{protocol}"'
                self.record(EventReport(key, "Normal", "nodeAssigned", sys.intern(message)))
            if old != new:
                for handler in self.on_held:
                    handler(key, new)

    def on_links_changed(self, names: Collection[str]) -> None:
        self.members.set_links(names)

    def record(self, event: EventReport) -> None:
        reference = self._reference_to(event.about)
        if reference is not None:
            self.recorder.record(reference, type=event.type, reason=event.reason, message=event.message)

    def _reference_to(self, about: ObjectKey | str) -> ObjectReference | None:
        """Return the reference to a Service, or to the Eip of a name; None once it is gone."""
        if isinstance(about, str):
            return self.configuration.eip_reference(about)
        service = self._services.get(about)
        return reference_to(service) if service is not None else None


def _protocols(held: Iterable[Held]) -> set[str]:
    """Return the protocols by which something is announced."""
    return {entry.protocol for entry in held if entry.detail}
