"""The balancer's controller: informers, the configuration, Services, reports. Called by `bridgehead balancer`."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

from bridgehead.backoff import Backoff
from bridgehead.balancer.admission.deregistration import give_back
from bridgehead.balancer.allocation import Allocator
from bridgehead.balancer.configuration import Compiled, compile_pools
from bridgehead.balancer.configuration.inputs import DEFAULT_NAMESPACE
from bridgehead.balancer.configuration_state import COMPONENT_LABEL, CONTROLLER_CONDITION, ConfigurationStateReporter
from bridgehead.balancer.configuration_watch import ConfigurationWatch
from bridgehead.balancer.definitions.install import install, watch_deletions
from bridgehead.balancer.errors import ConfigurationInvalid
from bridgehead.balancer.heartbeat_key import KINDS_ANNOTATION, OWN_NAMESPACE, SECRET_NAME
from bridgehead.balancer.kinds_in_use import format_kinds
from bridgehead.balancer.page_access import PageAccess
from bridgehead.client import ApiClient, EventRecorder, Informer
from bridgehead.client.access_reviews import AccessReviews
from bridgehead.client.errors import ClientError
from bridgehead.objects.core import Namespace, Secret
from bridgehead.objects.kinds import NAMESPACES, NODES, SECRETS, SERVICES
from bridgehead.objects.meta import ObjectKey
from bridgehead.pages import Page, Routes, metrics_page

from .fallback_pools import FallbackPools
from .metrics import ControllerMetrics
from .object_reports import Reporter
from .other_balancer_watch import OtherBalancerWatch
from .secret_annotation import SecretAnnotation
from .service_reconciler import ServiceReconciler
from .speaker_secret import ensure_secret
from .unanswered_webhooks import UnansweredWatch

log = logging.getLogger(__name__)

COMPONENT: Final = "metallb-controller"  # source of the Events, as MetalLB's
_REINSTALL_SECONDS: Final = 10.0
_INSTALL_DELAYS: Final = (0.1, 10.0)  # seconds: first and longest


@dataclass(frozen=True)
class ControllerSettings:
    """`namespace`: of the objects that people configure. `own_namespace`: of the speakers' Secret and of the Lease.

    `webhook`: address and port at which the API server reaches this process; None: no webhook. `ignore_exclude`:
    speakers ignore the label that excludes nodes from load balancers.
    """

    namespace: str = DEFAULT_NAMESPACE
    own_namespace: str = OWN_NAMESPACE
    lb_class: str = ""
    webhook: tuple[str, int] | None = None
    ignore_exclude: bool = False


class BalancerController:
    """Use once: `prepare`, then `run` until cancelled. `presence` knows the stand-ins of other balancers."""

    def __init__(self, client: ApiClient, settings: ControllerSettings, presence: OtherBalancerWatch) -> None:
        self._presence = presence
        self._client = client
        self._settings = settings
        self._recorder = EventRecorder(client, COMPONENT)
        self._services = Informer(client, SERVICES)
        self._namespaces = Informer(client, NAMESPACES)
        self._nodes = Informer(client, NODES)
        self._watch = ConfigurationWatch(
            client, settings.namespace, self._nodes, self._on_valid, self._on_invalid, sees_all_namespaces=True
        )
        self._secret: Informer[Secret] = Informer(
            client, SECRETS, settings.own_namespace, field_selector=f"metadata.name={SECRET_NAME}"
        )
        self._kinds_in_use = SecretAnnotation(
            client,
            settings.own_namespace,
            self._secret,
            KINDS_ANNOTATION,
            lambda: format_kinds(self._watch.names_in_use()),
            "cannot publish the kinds of configuration objects",
        )
        self.metrics = ControllerMetrics()
        allocator = Allocator()
        self._reporter = Reporter(client, settings.namespace, self._watch, allocator, self._recorder)
        self._reconciler = ServiceReconciler(
            client,
            self._services,
            self._nodes,
            self._namespaces,
            self._recorder,
            self.metrics,
            allocator,
            self._reporter.changed,
            lb_class=settings.lb_class,
            ignore_exclude=settings.ignore_exclude,
        )
        self._fallback_pools = FallbackPools(client, settings.namespace, self._watch)
        self._state = ConfigurationStateReporter(
            client, ObjectKey(settings.namespace, "controller"), {COMPONENT_LABEL: "controller"}, CONTROLLER_CONDITION
        )
        self.metrics.watch(allocator.spaces)
        self._lost = asyncio.Event()  # a definition, the namespace or the Secret was deleted
        self._reinstalling: asyncio.TimerHandle | None = None
        self._is_prepared = self._is_running = self._is_configured = False

    async def run(self) -> None:
        """Give out addresses until cancelled."""
        self._is_running = True
        self._namespaces.on_change(self._namespace_changed)
        self._secret.on_change(self._secret_changed)
        async with asyncio.TaskGroup() as tasks:
            for informer in (self._services, self._namespaces, self._nodes):
                tasks.create_task(informer.run(), name=f"informer {informer.kind.plural}")
            tasks.create_task(self._recorder.run(), name="events")
            tasks.create_task(self._watch.run(), name="configuration")
            tasks.create_task(self._reconciler.run(), name="services")
            tasks.create_task(self._reporter.run(), name="reports")
            tasks.create_task(self._state.run(), name="ConfigurationState")
            tasks.create_task(watch_deletions(self._client, self._definition_deleted), name="definitions")
            tasks.create_task(self._secret.run(), name="Secret")
            tasks.create_task(self._publish_kinds(), name="kinds in use")
            tasks.create_task(self._prepare_again(), name="preparations")
            tasks.create_task(self._fallback_pools.run(), name="fallback pools")
            unanswered = UnansweredWatch(
                self._client, self._recorder, self._presence, has_webhook=self._settings.webhook is not None
            )
            tasks.create_task(unanswered.run(), name="unanswered webhooks")
            if self._settings.webhook is None:
                tasks.create_task(self._return_webhooks(), name="webhooks of an earlier run")
            else:
                tasks.create_task(self._answer_reviews(*self._settings.webhook), name="webhook")

    async def prepare(self) -> None:
        """Install the namespace, the definitions and the Secret, again and again until the API server lets it."""
        backoff = Backoff(*_INSTALL_DELAYS)
        while True:
            try:
                await install(self._client, self._settings.namespace, self._settings.own_namespace)
                await ensure_secret(self._client, self._settings.own_namespace)
            except ClientError as error:
                if backoff.failures == 0:
                    log.warning("cannot install the definitions, trying again until it works: %s", error)
                await asyncio.sleep(backoff.next())
            else:
                self._is_prepared = True
                return

    def _definition_deleted(self) -> None:
        """Let the definitions be installed again a while after the last deletion.

        `helm uninstall --wait` waits until none of its objects exists, all at one time.
        """
        if self._reinstalling is not None:
            self._reinstalling.cancel()
        self._reinstalling = asyncio.get_running_loop().call_later(_REINSTALL_SECONDS, self._lost.set)

    async def _publish_kinds(self) -> None:
        await self._watch.wait_read()  # a kind that was not read would seem to have no objects
        self._watch.on_compiled = self._kinds_in_use.check
        await self._kinds_in_use.run()

    def _secret_changed(self, old: Secret | None, new: Secret | None) -> None:
        if new is None:
            self._lost.set()

    def _namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        if old is not None and new is None and old.metadata.name == self._settings.namespace:
            self._lost.set()

    async def _prepare_again(self) -> None:
        """Prepare again whenever something that `prepare` made has been deleted."""
        while True:
            await self._lost.wait()
            self._lost.clear()
            await self.prepare()
            self._reporter.report_again()

    async def _return_webhooks(self) -> None:
        """Give back what a controller with a webhook has left that was killed."""
        try:
            await give_back(self._client)
        except ClientError as error:
            log.warning("cannot give the webhooks of an earlier run back: %s", error)

    async def _answer_reviews(self, address: str, port: int) -> None:
        from .webhook import answer_reviews  # with an HTTPS server, which not every controller needs

        try:
            await answer_reviews(self._client, address, port, self._watch, self._presence)
        except OSError as error:
            log.error("no webhook: cannot serve on %s port %d: %s", address, port, error.strerror or error)

    def _on_valid(self, compiled: Compiled) -> None:
        self._is_configured = True
        self.metrics.config_loaded.set(1)
        self.metrics.config_stale.set(0)
        self._reconciler.configure(compiled.configuration)
        self._reporter.on_valid(compiled)
        self._state.report("")

    def _on_invalid(self, error: ConfigurationInvalid) -> None:
        """Give out addresses of the pools, if they are valid: the rest of the configuration concerns the speakers."""
        self._is_configured = True
        errors = [error]
        try:
            pools = compile_pools(self._watch.objects())
        except ConfigurationInvalid as error_of_pools:
            errors.append(error_of_pools)
            self.metrics.config_stale.set(1)
            self._reconciler.refuse(str(error_of_pools))
            self._state.report(str(error_of_pools))
        else:
            self.metrics.config_loaded.set(1)
            self.metrics.config_stale.set(0)
            self._reconciler.configure_pools(pools, str(error))
            self._state.report("")
        self._reporter.on_invalid(errors)

    def page_access(self, secure_port: int) -> PageAccess:
        """Return who may read the pages. `secure_port`: the port with TLS; 0: none."""
        return PageAccess(AccessReviews(self._client), secure_port=secure_port)

    def routes(self) -> Routes:
        """Return the pages: /healthz and /readyz are 503 until this process gives out addresses, or waits to lead."""

        def ready() -> Page:
            is_ready = self._is_configured if self._is_running else self._is_prepared
            return Page(200, b"ok") if is_ready else Page(503, b"the configuration has not been read yet")

        return {
            "/metrics": metrics_page(self.metrics.registry),
            "/healthz": ready,
            "/readyz": ready,
            "/livez": lambda: Page(200, b"ok"),
        }
