"""The parts of a speaker, put together. `cli/speaker.py` runs it."""

from __future__ import annotations

import asyncio
import functools
import os
import shutil
from typing import Any

from bridgehead.balancer.bgp.announcer import BgpAnnouncer, EventType
from bridgehead.balancer.bgp.searches import ConnectionSearches
from bridgehead.balancer.bgp.session_reports import session_metrics, status_section
from bridgehead.balancer.configuration_state import (
    COMPONENT_LABEL,
    NODE_LABEL,
    SPEAKER_CONDITION,
    ConfigurationStateReporter,
)
from bridgehead.balancer.detection.detector import Detector
from bridgehead.balancer.handovers import Handovers
from bridgehead.balancer.layer2.announcer import Layer2Announcer
from bridgehead.balancer.page_access import PageAccess
from bridgehead.balancer.short_names import NAME_CHARACTERS, shortened
from bridgehead.balancer.vrrp.announcer import MissingVrrp, VrrpAnnouncer
from bridgehead.balancer.workspace import Workspace
from bridgehead.client import ApiClient
from bridgehead.client.access_reviews import AccessReviews
from bridgehead.objects.kinds import NODES
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.openelb import BGP_PEERS
from bridgehead.pages import Routes

from .exclusion_watch import ExclusionWatch
from .metrics import SpeakerMetrics, layer2_metrics
from .openelb_reporter import OpenElbReporter
from .openelb_statuses import OpenElbStatuses
from .pages import speaker_routes
from .passwords import read_password
from .service_statuses import BGP, LAYER2, ServiceStatuses
from .speaker_reconciler import SpeakerOptions, SpeakerReconciler
from .speakers_secret import SpeakersSecret

# Debian has keepalived where not every user's PATH leads.
_PROGRAM_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"))


class Speaker:
    """A speaker. `interfaces`: the only ones that layer 2 uses; empty: all that lead to a network.

    Its child processes have their files in `workspace`.
    """

    def __init__(
        self,
        client: ApiClient,
        detector: Detector,
        options: SpeakerOptions,
        secret: SpeakersSecret,
        workspace: Workspace,
        interfaces: tuple[str, ...] = (),
    ) -> None:
        self._client = client
        self.reconciler = SpeakerReconciler(client, detector, options, secret)
        handovers = Handovers()
        keepalived = shutil.which("keepalived", path=_PROGRAM_PATH)
        vrrp: VrrpAnnouncer | MissingVrrp = MissingVrrp()
        if keepalived is not None:
            vrrp = VrrpAnnouncer(self.reconciler, keepalived, workspace, detector.send, handovers)
            self.reconciler.sections["vrrp"] = vrrp.section
        self.layer2 = Layer2Announcer(self.reconciler, handovers, interfaces=interfaces, serves_vrrp=keepalived is None)
        self.bgp = BgpAnnouncer(detector, functools.partial(read_password, client), self._record_about_peer)
        # Rules for open connections are there before an announcement, and `handovers` has the view of the others.
        followers = (handovers, self.layer2, ConnectionSearches(), self.bgp, vrrp, OpenElbReporter())
        self.reconciler.set_followers(followers)

        self.metrics = SpeakerMetrics(self.reconciler)
        self.metrics.add(lambda: layer2_metrics(self.layer2.responder))
        self.metrics.add(lambda: session_metrics(self.bgp.peer_states()))
        self.reconciler.sections["bgp"] = lambda: status_section(self.bgp.peer_states())

        where = client, options.node_name, options.namespace, lambda: self.reconciler.view.members
        self._statuses = (ServiceStatuses(LAYER2, *where), ServiceStatuses(BGP, *where))
        for statuses in self._statuses:
            self.reconciler.on_held.append(statuses.set_held)
            self.reconciler.on_members.append(statuses.members_changed)
        self._state = ConfigurationStateReporter(
            client,
            ObjectKey(options.namespace, shortened(f"speaker-{options.node_name}", NAME_CHARACTERS)),
            {COMPONENT_LABEL: "speaker", NODE_LABEL: shortened(options.node_name)},
            SPEAKER_CONDITION,
            self._owner,
        )
        self.reconciler.on_judged = self._report_state
        self._exclusions = ExclusionWatch(client, options.namespace, self.reconciler.recorder, self.layer2.set_excluded)
        self._openelb = OpenElbStatuses(client, options.node_name, self.bgp.peer_states, self._is_openelb)
        self.bgp.on_session_change = self._session_changed

    def routes(self) -> Routes:
        """Return the HTTP pages."""
        return speaker_routes(self.reconciler, self.metrics)

    def page_access(self, secure_port: int) -> PageAccess:
        """Return who may read the pages. `secure_port`: the port with TLS; 0: none."""
        reviews = AccessReviews(self._client)
        return PageAccess(reviews, lambda: self.reconciler.configuration.api_addresses, secure_port)

    async def run(self) -> None:
        """Announce until cancelled. Raises DetectorEnded."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.reconciler.run())
            tasks.create_task(self._exclusions.run())
            tasks.create_task(self._openelb.run())
            await self.reconciler.configuration.wait_installed()
            for statuses in self._statuses:
                tasks.create_task(statuses.run())
            tasks.create_task(self._state.run())

    def _session_changed(self) -> None:
        self._openelb.changed()
        self._report_state()

    def _report_state(self) -> None:
        """Report what is wrong with the configuration. As in MetalLB, the Secrets with passwords belong to it."""
        lacking = sorted(self.bgp.misconfigured().items())
        problems = [f"failed to parse peer {peer} password secret: {reason}" for peer, reason in lacking]
        self._state.report(self.reconciler.configuration.error or "; ".join(problems))

    def _owner(self) -> dict[str, Any] | None:
        """Return the ownerReference to this node's Node: its ConfigurationState goes with it."""
        node = self.reconciler.node
        if node is None:
            return None
        return {
            "apiVersion": NODES.api_version,
            "kind": NODES.name,
            "name": node.metadata.name,
            "uid": node.metadata.uid,
        }

    def _is_openelb(self, peer: str) -> bool:
        reference = self.reconciler.configuration.peer_reference(peer)
        return reference is not None and reference.api_version == BGP_PEERS.api_version

    def _record_about_peer(self, name: str, type: EventType, reason: str, message: str) -> None:
        peer = self.reconciler.configuration.peer_reference(name)
        if peer is not None:
            self.reconciler.recorder.record(peer, type=type, reason=reason, message=message)
