"""VRRP as an Announcer of the speaker, and what takes its place where keepalived is not installed."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import os
import pwd
import socket
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from bridgehead.backoff import Backoff
from bridgehead.balancer.announcer import EventReport, Held, Observer, UpdateResult
from bridgehead.balancer.announcing_nodes import leaving_nodes
from bridgehead.balancer.detection.engine import Message
from bridgehead.balancer.detection.keepalived_leftovers import request_removal
from bridgehead.balancer.handovers import Handovers
from bridgehead.balancer.interface_names import find_link
from bridgehead.balancer.ranges import IpAddress
from bridgehead.balancer.view import ClusterView, Publication
from bridgehead.balancer.workspace import Workspace
from bridgehead.network.host_paths import address_on
from bridgehead.network.interface_addresses import Addresses
from bridgehead.objects.meta import ObjectKey

from .address_groups import Group, GroupPlan
from .advertisement import send_resignation
from .change_order import NOTICE_SECONDS, Changes
from .keepalived import ADVERTISEMENT_SECONDS, Instance, identity_address, is_identity, render_configuration
from .keepalived_process import KeepalivedProcess
from .masters import Masters

log = logging.getLogger("bridgehead.balancer.vrrp")

_QUIET_SECONDS = 0.05  # changes that follow each other sooner are one reload
_FIRST_RETRY_SECONDS, _LONGEST_RETRY_SECONDS = 0.1, 5.0
_STABLE_SECONDS = 10.0  # a keepalived that ran for so long starts again without back-off
# After keepalived has reported its low priority, which its next advertisement may not have yet. Another node waits for
# up to 61 ms (the skew time of RFC 5798), and each packet makes it wait again.
_RESIGN_SECONDS = (0.0, 0.07, 0.14, 0.21, 0.28)
_WHY = "master of its VRRP group"


class VrrpAnnouncer:
    """Announces by a keepalived, which runs while the configuration has addresses of VRRP.

    It therefore has a new group at once, also on a node that was in none before.

    `program`: its path. `workspace` has its files. `send`: a message to the failure detector, which removes what
    keepalived leaves when this process is killed. `handovers` gets the addresses that other nodes had before.
    """

    protocol = "vrrp"

    def __init__(
        self,
        observer: Observer,
        program: str,
        workspace: Workspace,
        send: Callable[[Message], None],
        handovers: Handovers,
    ) -> None:
        self._observer = observer
        self._send = send
        self._handovers = handovers
        self._program = program
        self._workspace = workspace
        self._plan = GroupPlan()
        self._view: ClusterView | None = None
        self._groups: dict[str, Group] = {}  # that keepalived should have
        self._configured: dict[str, Group] = {}  # that it has
        self._changes = Changes()
        # Since when keepalived is the master of a group, epoch seconds; also of a group that it is about to lose.
        self._masters: dict[str, float] = {}
        self._expected = Masters()
        self._refused: frozenset[IpAddress] = frozenset()  # addresses without a virtual router, as reported
        self._resigning: set[str] = set()  # groups that other nodes should take over, as soon as keepalived is reloaded
        self._is_used = False  # whether keepalived should run
        self._has_changed = asyncio.Event()

    # --- The speaker's interface ----------------------------------------------------------------------------------

    def update(
        self, view: ClusterView, publications: Mapping[ObjectKey, Publication], changed: Collection[ObjectKey]
    ) -> UpdateResult:
        if self._view is None:
            if view.this_node not in view.members:
                # A keepalived that began now could take addresses over before it is known from whom.
                return UpdateResult()
            self._has_changed.set()
        elif view.is_alone and not self._view.is_alone:
            self._resigning = set(self._masters)
            if self._resigning:
                log.warning("no other node is received: any other node may take over what VRRP announces here")
        self._view = view
        regrouped = self._plan.update(view, publications, changed)
        is_used = any(pool.vrrp for pool in view.configuration.pools)
        if (is_used, self._plan.groups) != (self._is_used, self._groups):
            self._is_used, self._groups = is_used, self._plan.groups
            self._has_changed.set()
        self._hand_over(self._expected.update(self._plan.expected))
        return UpdateResult(regrouped, self._refusals())

    async def run(self) -> None:
        backoff = Backoff(_FIRST_RETRY_SECONDS, _LONGEST_RETRY_SECONDS)
        await self._has_changed.wait()
        self._remove_leftovers()
        while True:
            await self._has_changed.wait()
            if not self._is_used:
                self._has_changed.clear()
                continue
            started = time.monotonic()
            await self._run_keepalived()
            if time.monotonic() - started > _STABLE_SECONDS:
                backoff.reset()
            if self._is_used:
                await asyncio.sleep(backoff.next())
            else:
                backoff.reset()

    def held(self, services: Collection[ObjectKey]) -> Collection[Held]:
        return [
            Held(address, service, self.protocol, self._masters[name], (group.key.interface,), _WHY)
            for name, group in self._configured.items()
            if name in self._masters
            for address in group.addresses
            for service in self._plan.services(address)
            if service in services
        ]

    @property
    def is_handing_over(self) -> bool:
        """Whether this node leaves, and is still the master of a group that another node can take over."""
        view = self._view
        if view is None or not self._mastered():
            return False
        leaving = leaving_nodes(view)
        return view.this_node in leaving and bool((view.members & view.nodes.keys()) - leaving)

    def section(self) -> list[dict[str, Any]]:
        """Return the groups for the speaker's status page, fit for JSON. `since`: epoch seconds."""
        return [
            {
                "group": name,
                "interface": group.key.interface,
                "routerId": group.router_id,
                "priority": group.priority,
                "master": name in self._masters,
                "since": self._masters.get(name, 0.0),
                "addresses": [str(address) for address in group.addresses],
            }
            for name, group in sorted(self._groups.items())
        ]

    def _hand_over(self, moved: Iterable[IpAddress] = ()) -> None:
        """Let packets of connections that are older than this node's mastership go to the master before.

        `moved`: addresses that should have another master than before. The rules are there before this node becomes
        it, and until it is no longer.
        """
        this = self._view.this_node if self._view is not None else ""
        for address in moved:
            if self._expected.master(address) == this:
                self._handovers.begin(address, self._expected.previous(address), self.protocol)
            elif self._expected.previous(address) == this:
                self._handovers.lose(address)
            else:  # nodes whose timers end together are masters together, until the right one prevails
                self._handovers.pass_on(address, self._expected.previous(address), self.protocol)
        mastered = {address for _, address in self._mastered()}
        self._handovers.retain(self._expected.of(this) | mastered, self.protocol)
        self._handovers.apply()

    def _mastered(self) -> set[tuple[str, IpAddress]]:
        """Return the addresses that this node has, each with the name of its group."""
        groups = ((name, self._configured[name]) for name in self._masters if name in self._configured)
        return {(name, address) for name, group in groups for address in group.addresses}

    def _is_elsewhere(self, group: Group) -> bool:
        """Return whether another node should be the master of some of a group's addresses."""
        nodes = {self._expected.master(address) for address in group.addresses}
        return self._view is not None and not self._view.is_alone and bool(nodes - {"", self._view.this_node})

    # --- keepalived -----------------------------------------------------------------------------------------------

    async def _run_keepalived(self) -> None:
        """Run a keepalived until it ends, or until no address is announced by VRRP any more."""
        keepalived = KeepalivedProcess(self._program, self._workspace, self._render, self._on_state, self._on_reloaded)
        self._has_changed.clear()
        running = asyncio.create_task(keepalived.run())
        try:
            while self._is_used and not running.done():
                changed = asyncio.create_task(self._has_changed.wait())
                try:
                    await asyncio.wait([running, changed], return_when=asyncio.FIRST_COMPLETED)
                finally:
                    changed.cancel()
                await asyncio.sleep(0 if self._resigning else _QUIET_SECONDS)
                if self._has_changed.is_set() and self._is_used and not running.done():
                    self._has_changed.clear()
                    try:
                        keepalived.reload()
                    except OSError as error:  # a full disk, or an interface that has just gone
                        log.error("cannot configure keepalived, starting it again: %s", error)
                        break
        finally:
            running.cancel()
            await asyncio.wait([running])
            self._set_configured({})
            self._masters.clear()
            self._remove_leftovers()
            self._send(request_removal("", ()))
        if not running.cancelled() and running.exception() is not None:
            log.error("cannot run keepalived: %s", running.exception())
        elif self._is_used:
            log.error("keepalived ended; its last lines:\n%s", "\n".join(keepalived.last_lines))
            self._has_changed.set()

    def _render(self, fifo: str) -> str:
        is_alone = self._view is not None and self._view.is_alone
        now = asyncio.get_running_loop().time()
        self._set_configured(
            self._changes.choose(self._configured, self._groups, self._masters, self._is_elsewhere, now)
        )
        if self._changes.has_waiting:
            asyncio.get_running_loop().call_later(NOTICE_SECONDS, self._has_changed.set)
        instances = list(self._instances())
        self._send(request_removal(str(self._workspace.root or ""), _addresses_of(instances)))
        return render_configuration(instances, fifo, _existing_user_name(), is_alone=is_alone)

    def _set_configured(self, groups: dict[str, Group]) -> None:
        """Record the groups that keepalived has from now on, and report the Services of which `held` differs.

        keepalived notifies of transitions only. A master stays one, without a notification, when addresses are added
        to its group or removed, and when a group is back before keepalived has read that it was gone.
        """
        before, self._configured = self._mastered(), groups
        self._hand_over()
        differing = {address for _, address in before ^ self._mastered()}
        if differing:
            self._observer.on_held_changed(self._services_at(differing))

    def _instances(self) -> Iterator[Instance]:
        is_alone = self._view is not None and self._view.is_alone
        for name, group in self._configured.items():
            link = find_link(group.key.interface)
            if link:
                has_ipv4 = bool(address_on(socket.if_nametoindex(link), 4))
                yield Instance(group, link, has_ipv4, is_resigned=is_alone and name in self._masters)
            else:
                log.error("no interface %s on this node", group.key.interface)

    def _on_state(self, name: str, is_master: bool) -> None:
        if is_master == (name in self._masters):
            return
        if is_master:
            self._masters[name] = time.time()
        else:
            del self._masters[name]
        self._hand_over()
        log.info("group %s: %s", name, "master" if is_master else "not the master")
        group = self._configured.get(name)
        if group is not None:
            self._observer.on_held_changed(self._services_at(group.addresses))

    def _on_reloaded(self) -> None:
        for name in self._resigning:
            for seconds in _RESIGN_SECONDS:
                asyncio.get_running_loop().call_later(seconds, self._resign, name)
        self._resigning.clear()

    def _resign(self, name: str) -> None:
        """Let any other node of a group take over at once, although this node goes on.

        While this node receives no other one, either there is none, or none is received because of a fault that leaves
        the direction to the others intact: they would wait for the end of the advertisements, which does not come.
        """
        group = self._configured.get(name)
        if group is None or name not in self._masters or self._view is None or not self._view.is_alone:
            return
        try:
            link = socket.if_nametoindex(find_link(group.key.interface))
            source = address_on(link, 4)
            identity = ipaddress.ip_interface(identity_address(group.router_id, bool(source))).ip
            send_resignation(link, group.router_id, identity, ADVERTISEMENT_SECONDS, source)
        except OSError as error:  # the link is down, or has gone
            log.warning("cannot hand group %s over: %s", name, error)

    def _services_at(self, addresses: Iterable[IpAddress]) -> set[ObjectKey]:
        return {service for address in addresses for service in self._plan.services(address)}

    def _refusals(self) -> list[EventReport]:
        """Return Events about the addresses that have no virtual router since the last call."""
        events = []
        for address in self._plan.refused - self._refused:
            message = f"no virtual router id is free for {address}: VRRP has 255 on a network"
            services = self._plan.services(address)
            events += [EventReport(service, "Warning", "announceFailed", message) for service in services]
        self._refused = self._plan.refused
        return events

    def _remove_leftovers(self) -> None:
        """Remove the addresses that a keepalived has left which was killed.

        They are those of single hosts (Addresses.remove spares all others) in pools of VRRP, on its links.
        """
        pools = [pool for pool in self._view.configuration.pools if pool.vrrp] if self._view is not None else []
        names = {find_link(advertisement.interface) for pool in pools for advertisement in pool.vrrp} - {""}
        try:
            links = {socket.if_nametoindex(name) for name in names}
            with contextlib.closing(Addresses()) as addresses:
                for entry in addresses.all():
                    address = ipaddress.ip_address(entry.address)
                    is_ours = is_identity(address) or any(address in pool for pool in pools)
                    if is_ours and entry.link in links:
                        addresses.remove([entry])
        except OSError as error:
            log.error("cannot remove addresses of an earlier keepalived: %s", error)


def _existing_user_name() -> str:
    """Return this user's name, or that of another user of this machine if this one has none, as in containers."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return pwd.getpwall()[0].pw_name


def _addresses_of(instances: Iterable[Instance]) -> Iterator[tuple[int, str]]:
    """Yield what keepalived may add: the indices of links, and addresses without prefix lengths."""
    for instance in instances:
        link = socket.if_nametoindex(instance.link)
        yield link, identity_address(instance.group.router_id, instance.has_ipv4).partition("/")[0]
        for address in instance.group.addresses:
            yield link, str(address)


class MissingVrrp:
    """Takes the place of VrrpAnnouncer without keepalived: reports that layer 2 announces the addresses instead."""

    def __init__(self) -> None:
        self._plan = GroupPlan()

    def update(
        self, view: ClusterView, publications: Mapping[ObjectKey, Publication], changed: Collection[ObjectKey]
    ) -> UpdateResult:
        regrouped = self._plan.update(view, publications, changed)
        if view.this_node != min(view.members, default=""):  # one Event is enough
            return UpdateResult()
        events = []
        for service in regrouped:
            addresses = ", ".join(sorted(map(str, self._plan.addresses(service))))
            if addresses:
                message = f"keepalived is not installed on node {view.this_node}: layer 2 announces {addresses} instead"
                events.append(EventReport(service, "Warning", "VRRPUnavailable", message))
        return UpdateResult(events=events)

    async def run(self) -> None:
        await asyncio.get_running_loop().create_future()
