"""All BGP sessions of a node: an Announcer of the speaker."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Literal, NamedTuple

from bridgehead.balancer.announcer import Held, UpdateResult
from bridgehead.balancer.compiled_configuration import BfdProfile, Peer
from bridgehead.balancer.ranges import IpAddress
from bridgehead.balancer.view import ClusterView, Publication
from bridgehead.network.host_paths import address_on, find_path
from bridgehead.network.own_addresses import is_local
from bridgehead.objects.meta import ObjectKey

from .announced_routes import RoutePlan
from .bfd_sessions import BfdDetector, BfdSessions, PathEvent
from .exabgp import HOLD_SECONDS, SessionSettings, router_id_of
from .exabgp_process import ExaBgp
from .session import CONNECT_SECONDS, Misconfigured, NotConfigurable, PeerSession, is_awaited

log = logging.getLogger("bridgehead.balancer.bgp")

EventType = Literal["Normal", "Warning"]
# Reports something that concerns a peer: its name, the type, the reason and the message of an Event.
ReportEvent = Callable[[str, EventType, str, str], None]
# Returns the password in a Secret with this namespace and name; raises LookupError with the reason.
ReadPassword = Callable[[str, str], Awaitable[str]]

_LARGEST_TTL = 255
_LOOK_SECONDS = 5.0  # between looks at what sessions are configured by, while they are not established
_LOOKS_ESTABLISHED = 6  # of these, for one at those that are
_WHY = "every node that may announce the Service has a route to it"


class PeerState(NamedTuple):
    """A session for `bridgehead balancer status` and metrics. `since`: epoch seconds of the last change of `status`.

    `bfd`: the state of the BFD session ("up", "down"), or "" without one. `settings`: None before the first attempt.
    """

    name: str
    address: IpAddress
    port: int
    status: str
    since: float
    reason: str
    bfd: str
    announced: int
    pending: int
    updates: int
    settings: SessionSettings | None = None


class BgpAnnouncer:
    """The sessions of this node with its peers, and its routes."""

    protocol = "bgp"

    def __init__(self, detector: BfdDetector, read_password: ReadPassword, report: ReportEvent) -> None:
        self._read_password = read_password
        self._report = report
        self._exabgp = ExaBgp()
        self._plan = RoutePlan()
        self._this_node = ""
        self._wanted: dict[str, tuple[Peer, BfdProfile | None]] = {}
        self._has_changed = asyncio.Event()
        self._sessions: dict[str, PeerSession] = {}
        self._since: dict[ObjectKey, float] = {}
        self._started_at: float | None = None
        self._bfd = BfdSessions(detector, self._on_bfd)
        # Called after each change of a session.
        self.on_session_change: Callable[[], None] = lambda: None

    # --- The speaker's interface ----------------------------------------------------------------------------------

    def update(
        self, view: ClusterView, publications: Mapping[ObjectKey, Publication], changed: Collection[ObjectKey]
    ) -> UpdateResult:
        self._this_node = view.this_node
        if self._started_at is None:
            self._started_at = time.monotonic()
        wanted = _wanted_peers(view)
        if wanted != self._wanted:
            self._wanted = wanted
            self._has_changed.set()
        change = self._plan.update(view, publications, changed)
        for name, prefixes in change.prefixes.items():
            session = self._sessions.get(name)
            if session is not None:
                session.update(prefixes)
        announced = self._plan.services()
        for key in change.services:
            if key in announced:
                self._since.setdefault(key, time.time())
            else:
                self._since.pop(key, None)
        return UpdateResult(change.services)

    async def run(self) -> None:
        running: dict[str, tuple[tuple[Peer, BfdProfile | None], asyncio.Task[None]]] = {}
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._follow_settings())
                while True:
                    await self._has_changed.wait()
                    self._has_changed.clear()
                    for name in running.keys() | self._wanted.keys():
                        wanted = self._wanted.get(name)
                        present, task = running.pop(name, (None, None))
                        if present == wanted and wanted is not None and task is not None:
                            running[name] = (wanted, task)
                            continue
                        if task is not None:
                            session = self._sessions.pop(name)
                            session.is_last = not _follows(present, wanted)
                            task.cancel()
                        if wanted is not None:
                            session = self._sessions[name] = self._make_session(*wanted)
                            running[name] = (wanted, group.create_task(self._hold(session, task)))
                    self.on_session_change()
        finally:
            self._sessions.clear()
            self._bfd.end_all()

    async def _hold(self, session: PeerSession, predecessor: asyncio.Task[None] | None) -> None:
        """Hold a session until cancelled, after the one before with the same peer has ended."""
        try:
            if predecessor is not None:
                await asyncio.wait([predecessor])
            await session.run()
        finally:
            if predecessor is not None:  # this task may have been cancelled while it waited
                await asyncio.wait([predecessor])
            self._bfd.end(session.name)

    def held(self, services: Collection[ObjectKey]) -> Collection[Held]:
        return [
            Held(address, key, self.protocol, self._since.get(key, 0.0), tuple(sorted(peers)), _WHY)
            for key in services
            for address, peers in self._plan.announced(key).items()
        ]

    @property
    def is_handing_over(self) -> bool:
        """Whether a peer has not been sent all changes yet."""
        return any(session.statistics.pending for session in self._sessions.values())

    @property
    def awaited(self) -> list[str]:
        """Return the peers that may not have this speaker's routes yet, shortly after it began."""
        if self._started_at is None:
            return []
        now = time.monotonic()
        sessions = ((name, self._sessions.get(name)) for name in sorted(self._wanted))
        return [name for name, session in sessions if is_awaited(session, now - self._started_at, now)]

    def peer_states(self) -> list[PeerState]:
        """Return the sessions, by name."""
        return [
            PeerState(
                name,
                self._wanted[name][0].address,
                self._wanted[name][0].port,
                session.status,
                session.since,
                session.reason,
                self._bfd.state(name),
                session.statistics.announced,
                session.statistics.pending,
                session.statistics.updates,
                session.settings,
            )
            for name, session in sorted(self._sessions.items())
            if name in self._wanted
        ]

    def misconfigured(self) -> dict[str, str]:
        """Return, by peer, why sessions wait for changes of objects of the API."""
        return {name: session.reason for name, session in self._sessions.items() if session.is_misconfigured}

    # --- Sessions -------------------------------------------------------------------------------------------------

    def _make_session(self, peer: Peer, profile: BfdProfile | None) -> PeerSession:
        for problem in unsupported_options(peer, profile):
            self._report(peer.name, "Warning", "UnsupportedOption", problem)

        async def configure() -> SessionSettings:
            settings = await self._settings(peer)
            if profile is not None:
                self._bfd.begin(peer, profile, settings.local_address, settings.peer_asn == settings.my_asn)
            return settings

        connect_seconds = float(peer.connect_time or CONNECT_SECONDS)
        return PeerSession(
            peer.name, self._plan, configure, self._on_session, self._exabgp, connect_seconds=connect_seconds
        )

    async def _settings(self, peer: Peer) -> SessionSettings:
        """Return the settings of a session by this node's present addresses and the present password."""
        path = find_path(str(peer.address))
        if path is None:
            raise NotConfigurable(f"no route to {peer.address}")
        local = peer.source_address or ipaddress.ip_address(path.source)
        next_hops = {version: address_on(path.link, version) for version in (4, 6)}
        next_hops[local.version] = str(local)
        if not peer.both_families:
            next_hops = {local.version: str(local)}
        try:
            password = await self._password(peer)
        except LookupError as error:
            raise Misconfigured(str(error)) from None
        peer_asn = {"internal": peer.my_asn, "external": 0}.get(str(peer.peer_asn), peer.peer_asn)
        is_internal = peer_asn == peer.my_asn
        return SessionSettings(
            local_address=local,
            peer_address=peer.address,
            port=peer.port,
            my_asn=peer.my_asn,
            peer_asn=int(peer_asn),
            router_id=peer.router_id or router_id_of(local, self._this_node),
            hold_time=HOLD_SECONDS if peer.hold_time is None else peer.hold_time,
            keepalive_time=peer.keepalive_time or 0,
            password=password,
            # As FRR: an external peer is on the link, unless ebgpMultiHop is set.
            ttl=_LARGEST_TTL if peer.ebgp_multi_hop else 0 if is_internal else 1,
            graceful_restart=peer.graceful_restart,
            next_hops={version: address for version, address in next_hops.items() if address},
            listen_port=peer.listen_port,
        )

    async def _password(self, peer: Peer) -> str:
        """Return the peer's password. Raises LookupError."""
        return await self._read_password(*peer.password_secret) if peer.password_secret else peer.password

    async def _follow_settings(self) -> None:
        """Restart sessions that would be configured otherwise now: this node's addresses or a password have changed."""
        for look in itertools.count(1):
            await asyncio.sleep(_LOOK_SECONDS)
            for name, session in list(self._sessions.items()):
                peer, _ = self._wanted.get(name, (None, None))
                is_established = session.status == "established"
                if peer is None or session.settings is None or (is_established and look % _LOOKS_ESTABLISHED):
                    continue
                with contextlib.suppress(NotConfigurable, OSError):  # the session goes on with what it has
                    fresh = await self._settings(peer)  # meanwhile the session may have begun anew
                    is_established = session.status == "established"
                    why = why_outdated(session.settings, fresh, is_established=is_established)
                    if why:
                        session.restart(why)

    def _on_session(self, session: PeerSession) -> None:
        self.on_session_change()
        if session.status == "established":
            message = f"BGP session of node {self._this_node} is up" + (f"; {session.reason}" if session.reason else "")
            self._report(session.name, "Normal", "SessionEstablished", message)
            log.info("peer %s: session established", session.name)
        elif session.reason:
            message = f"BGP session of node {self._this_node} is down: {session.reason}"
            self._report(session.name, "Warning", "SessionDown", message)
            log.warning("peer %s: no session: %s", session.name, session.reason)

    def _on_bfd(self, name: str, event: PathEvent, reason: str) -> None:
        session = self._sessions.get(name)
        if event == "failed":
            self._report(name, "Warning", "BFDFailed", reason)
        elif session is not None and event == "up":
            session.connect()
        elif session is not None and event == "lost":
            log.warning("peer %s: %s", name, reason)
            self._report(name, "Warning", "BFDDown", f"node {self._this_node}: {reason}")
            session.tear_down()


def why_outdated(settings: SessionSettings, fresh: SessionSettings, *, is_established: bool) -> str:
    """Return why a session with `settings` has to begin anew with `fresh` ones, or "".

    An established session ends only if it has to: of several paths to a peer another one may be found each time.
    """
    if settings.password != fresh.password:
        return "its password has changed"
    used = {str(settings.local_address), *settings.next_hops.values()}
    if fresh != settings and not (is_established and all(map(is_local, used))):
        return "the addresses of this node have changed"
    return ""


def unsupported_options(peer: Peer, profile: BfdProfile | None) -> list[str]:
    """Describe, for Events, the settings of a peer's object that this speaker does not follow."""
    found = []
    hold_time = HOLD_SECONDS if peer.hold_time is None else peer.hold_time
    if peer.keepalive_time is not None and peer.keepalive_time > hold_time // 3:
        found.append(
            f"keepaliveTime {peer.keepalive_time}s is ignored: a third of the hold time, {hold_time}s, is less"
        )
    if peer.disable_mp:
        found.append("disableMP is ignored: a session has both families with dualStackAddressFamily only")
    if profile is not None and profile.echo_mode:
        found.append(f"echoMode of BFD profile {profile.name} is ignored: the session is in asynchronous mode")
    return found


def _follows(old: tuple[Peer, BfdProfile | None] | None, new: tuple[Peer, BfdProfile | None] | None) -> bool:
    """Whether a changed peer is still the same router."""
    return old is not None and new is not None and old[0].address == new[0].address


def _wanted_peers(view: ClusterView) -> dict[str, tuple[Peer, BfdProfile | None]]:
    """Return this node's peers, each with its BFD profile."""
    node = view.nodes.get(view.this_node)
    if node is None:
        return {}
    profiles = view.configuration.bfd_profiles
    return {
        peer.name: (peer, profiles.get(peer.bfd_profile))
        for peer in view.configuration.peers.values()
        if peer.nodes.matches(node.labels)
    }
