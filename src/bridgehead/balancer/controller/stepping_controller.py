"""The controller while no MetalLB or OpenELB itself runs: it steps back for a real one, and comes back after it.

Two balancers would give one address to two Services, and announce it from two nodes. An annotation of the Secret that
the speakers read anyway notifies them, so that they need not see any pod.
"""

from __future__ import annotations

import asyncio
import functools
import logging

from bridgehead.balancer.admission.deregistration import give_back
from bridgehead.balancer.heartbeat_key import SECRET_NAME, STEPPED_BACK_ANNOTATION
from bridgehead.balancer.page_access import PageAccess
from bridgehead.client import ApiClient, EventRecorder, Informer, reference_to
from bridgehead.client.errors import ClientError
from bridgehead.objects.core import Pod
from bridgehead.objects.kinds import SECRETS
from bridgehead.pages import Negotiated, Page, Routes, route
from bridgehead.racing import race

from .cleanup import release_objects
from .controller import COMPONENT, BalancerController, ControllerSettings
from .other_balancer_watch import OtherBalancerWatch
from .secret_annotation import SecretAnnotation

log = logging.getLogger(__name__)


class SteppingController:
    """Use once: `prepare`, then `run` until cancelled."""

    def __init__(self, client: ApiClient, settings: ControllerSettings) -> None:
        self._client = client
        self._settings = settings
        self._presence = OtherBalancerWatch(client, settings.lb_class)
        self._recorder = EventRecorder(client, COMPONENT)
        self._controller = self._make()
        self._secret = Informer(client, SECRETS, settings.own_namespace, field_selector=f"metadata.name={SECRET_NAME}")
        self._stepped_back = SecretAnnotation(
            client,
            settings.own_namespace,
            self._secret,
            STEPPED_BACK_ANNOTATION,
            self._pod_for_speakers,
            "cannot notify the speakers whether to announce",
        )
        self._is_back = False  # stepped back
        self._started = asyncio.Event()  # it is known whether another balancer runs

    async def prepare(self) -> None:
        """Install what is missing."""
        await self._controller.prepare()

    async def run(self) -> None:
        """Give out addresses until cancelled, except while another balancer runs."""
        async with asyncio.TaskGroup() as tasks:
            for name, work in (
                ("presence", self._presence.run()),
                ("events about other balancers", self._recorder.run()),
                ("informer of the Secret", self._secret.run()),
                ("turns", self._take_turns()),
                ("speakers", self._notify_speakers()),
            ):
                tasks.create_task(work, name=name)

    def routes(self) -> Routes:
        """Return the pages of the controller; while it has stepped back, it is ready."""

        def page(path: str, accept: str) -> Page:
            if self._is_back and path in ("/healthz", "/readyz"):
                return Page(200, b"another balancer runs")
            return route(self._controller.routes())("GET", path, accept)

        return {path: Negotiated(functools.partial(page, path)) for path in self._controller.routes()}

    def page_access(self, secure_port: int) -> PageAccess:
        """Return who may read the pages. `secure_port`: the port with TLS; 0: none."""
        return self._controller.page_access(secure_port)

    def _make(self) -> BalancerController:
        return BalancerController(self._client, self._settings, self._presence)

    async def _take_turns(self) -> None:
        await self._presence.wait_synced()
        while True:
            other = self._presence.other
            self._is_back = other is not None
            self._started.set()
            self._stepped_back.check()
            if other is None:
                await race(self._controller.run(), self._presence.wait_other())
                self._controller = self._make()
            else:
                self._report(other)
                await self._release()
                await self._presence.wait_alone()
                message = f"no pod of {other.key.namespace} gives out addresses any more: this balancer does again"
                log.info("%s", message)
                self._recorder.record(reference_to(other), reason="BalancerResumed", message=message)
                await self._controller.prepare()

    async def _release(self) -> None:
        """Remove what keeps objects from being deleted, conditions that would be out of date, and webhooks.

        Addresses stay: a MetalLB takes them over. The webhooks are those of a balancer that was killed.
        """
        try:
            await give_back(self._client)
            await release_objects(self._client, keeps_addresses=True)
        except ClientError as error:
            log.warning(
                "cannot remove webhooks, finalizers and conditions, `bridgehead balancer --cleanup` does: %s", error
            )

    def _report(self, other: Pod) -> None:
        message = (
            "this pod is another balancer for the same Services:"
            " Bridgehead's gives out and announces no addresses while it runs"
        )
        log.warning("stepping back for the pod %s: %s", other.key, message)
        self._recorder.record(reference_to(other), type="Warning", reason="BalancerSteppedBack", message=message)

    async def _notify_speakers(self) -> None:
        await self._started.wait()
        await self._stepped_back.run()

    def _pod_for_speakers(self) -> str | None:
        """Return the other balancer's pod if this one has stepped back for it."""
        other = self._presence.other
        return str(other.key) if self._is_back and other is not None else None
