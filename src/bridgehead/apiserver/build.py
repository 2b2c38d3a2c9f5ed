"""Assembly of an API server from its parts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from bridgehead.heap import Trimmer
from bridgehead.signing_keys import SigningKey
from bridgehead.storage import Store
from bridgehead.zpages import FLAGZ, STATUSZ, ZPages

from .access.authentication import Authenticator
from .access.authorization import Authorizer
from .access.node_authorizer import NodeAuthorizer
from .access.node_relations import NodeRelations
from .access.rbac.policy_cache import StoredPolicy
from .access.request_headers import RequestHeaders
from .access.service_account_tokens import TokenAuthority, TokenSettings
from .admission.plugin_dependencies import PluginDependencies
from .admission.plugins import build_chain
from .app import Application
from .audit.trail import begin_unaudited
from .bodies.definitions import OBJECT_META, LazyDefinitions
from .bodies.protobuf import plain_scalars
from .bodies.schema import Schema
from .customresources.customresourcedefinitions import definition_resource
from .customresources.definition_controller import Definitions
from .flowcontrol.apf_controller import FlowControl
from .flowcontrol.metrics import PriorityLevelMetrics
from .handlers.access_reviews import Reviews
from .handlers.apply import Applier
from .handlers.discovery import Discovery
from .handlers.dispatch import Dispatch
from .handlers.health import SLIS_PATH, Check, Health
from .handlers.issuer import CONFIGURATION_PATH, JWKS_PATH, IssuerDiscovery
from .handlers.non_resource_urls import NonResourceUrls
from .handlers.objects import Objects
from .handlers.openapi import OpenApi
from .handlers.rendering import Rendering
from .handlers.subresources import Subresources
from .http.unsent import UnsentBudget
from .http.user import User
from .metrics.page import Metrics
from .metrics.storage_metrics import StorageMetrics
from .proxying.aggregation.aggregator import Aggregator
from .proxying.aggregation.server_transport import ProxyCertificate, Transport
from .proxying.connections import Connections
from .proxying.subresource import ProxySubresource
from .registry.legacy_tokens import LegacyTokenUses
from .registry.quota_usage import QuotaUsage
from .registry.registry import Registry
from .registry.watching import OpenWatches
from .resource import Resource
from .shapes import JsonShape, Shape
from .streams.kubelet_access import KubeletAccess, KubeletTls
from .streams.pod_streams import PodStreams
from .table import ResourceTable
from .webhookclient.client import WebhookClient

if TYPE_CHECKING:
    from .access.jwtissuers.token_verification import JwtIssuers
    from .audit.auditor import Auditor


@dataclass(frozen=True, slots=True)
class ApiParts:
    """A complete API server. `application` is served; `serve` and tests use the other parts."""

    application: Application
    table: ResourceTable
    registry: Registry
    schema: Schema
    definitions: Definitions
    tokens: TokenAuthority
    watches: OpenWatches
    kubelets: KubeletAccess
    webhooks: WebhookClient
    aggregator: Aggregator
    transport: Transport
    connections: Connections
    trimmer: Trimmer
    flow_control: FlowControl
    quota_usage: QuotaUsage

    async def close(self) -> None:
        """Release what is open, after the last request."""
        self.trimmer.close()
        await self.kubelets.close()
        await self.webhooks.close()
        await self.connections.close()


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """Settings. `users` are those of the static token file; `kubelet_tls` is for logs and exec.

    `auditor` writes the audit log; `proxy_certificate` is for the servers of aggregated APIs. `jwks_uri` is the URL of
    the keys of service account tokens, `authentication_file` an AuthenticationConfiguration. `address` is the
    server's for clients (`host:port`); `flags` are the process's options, for /flagz. `request_headers` name the users
    of front proxies. `admission_plugins`: names of the optional ones.
    """

    signing_key: SigningKey
    kubelet_tls: KubeletTls | None = None
    proxy_certificate: ProxyCertificate | None = None
    users: Mapping[str, User] = field(default_factory=dict)
    clock: Callable[[], float] = time.time
    auditor: Auditor | None = None
    tokens: TokenSettings = field(default_factory=TokenSettings)
    jwks_uri: str = ""
    address: str = ""
    flags: Mapping[str, str] = field(default_factory=dict)
    authentication_file: Path | None = None
    request_headers: RequestHeaders | None = None
    admission_plugins: frozenset[str] = frozenset()


def _shape_of(schema: Schema, resource: Resource, kind: tuple[str, str, str]) -> Shape:
    """Return the shape of a kind, which is the resource's own or that of a subresource."""
    if resource.definition is not None and kind[2] == resource.kind:
        shape: Shape = resource.definition.shape
        return shape
    try:
        return schema.of_kind(*kind)
    except KeyError:
        return _ANY_JSON  # PodExecOptions and its like have no definition


_ANY_JSON = JsonShape("map[string]interface {}")


def _jwt_issuers(settings: ApiSettings) -> JwtIssuers | None:
    if settings.authentication_file is None:
        return None
    from .access.jwtissuers.token_verification import JwtIssuers  # imports CEL, which most servers need later or never

    try:
        return JwtIssuers(settings.authentication_file, settings.tokens.issuers, settings.clock)
    except ValueError as error:
        raise ValueError(f"{settings.authentication_file}: {error}") from error


def _succeed() -> str | None:
    return None


def _health(store: Store, not_shutting_down: Check) -> Health:
    """Return the health endpoints, with Kubernetes' names of checks, which clients ask for and exclude."""
    checks: dict[str, Check] = {"ping": _succeed, "log": _succeed, "etcd": lambda: store.failure}
    hooks: dict[str, Check] = dict.fromkeys(_HOOKS, _succeed)
    ready: dict[str, Check] = {"etcd-readiness": checks["etcd"], "informer-sync": _succeed}
    return Health({**checks, **hooks}, {**checks, **ready, **hooks, "shutdown": not_shutting_down})


# Steps of kube-apiserver's start that this server takes before it serves.
_HOOKS = (
    *(
        f"poststarthook/{hook}"
        for hook in (
            "start-apiserver-admission-initializer",
            "generic-apiserver-start-informers",
            "priority-and-fairness-config-consumer",
            "priority-and-fairness-filter",
            "start-apiextensions-informers",
            "start-apiextensions-controllers",
            "crd-informer-synced",
            "start-system-namespaces-controller",
            "start-service-ip-repair-controllers",
            "rbac/bootstrap-roles",
            "scheduling/bootstrap-system-priority-classes",
            "priority-and-fairness-config-producer",
            "bootstrap-controller",
            "start-cluster-authentication-info-controller",
            "start-kube-apiserver-identity-lease-controller",
            "start-kube-apiserver-identity-lease-garbage-collector",
            "start-legacy-token-tracking-controller",
            "start-kube-aggregator-informers",
            "apiservice-status-local-available-controller",
            "apiservice-status-remote-available-controller",
            "apiservice-registration-controller",
            "apiservice-discovery-controller",
            "kube-apiserver-autoregistration",
            "apiservice-openapi-controller",
            "apiservice-openapiv3-controller",
        )
    ),
    "autoregister-completion",
)
# Pages for operators, which /statusz lists.
_PAGES = ("/healthz", "/livez", "/metrics", "/readyz", "/version")
# Other paths that are no API's.
_PATHS = (
    CONFIGURATION_PATH,
    JWKS_PATH,
    FLAGZ,
    STATUSZ,
    SLIS_PATH,
    "/metrics",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/",
    "/version",
)


@cache
def api_schema() -> Schema:
    """Return the shapes of the built-in kinds, which the servers of a process share, as those of tests do."""
    return Schema(LazyDefinitions(), plain_scalars)


def build_api(table: Sequence[Resource], store: Store, settings: ApiSettings) -> ApiParts:
    """Assemble a server. Raises KeyError when the schema has no definition for a kind of the table.

    An AuthenticationConfiguration that can't be read raises OSError or ValueError.
    """
    schema = api_schema()

    def metadata() -> Shape:
        return schema.of_definition(OBJECT_META)

    resources = ResourceTable((*table, definition_resource(metadata)))
    watches = OpenWatches()
    metrics = Metrics(StorageMetrics(store, lambda: resources, watches.counts))
    webhooks = WebhookClient(store)
    authorizer = Authorizer(StoredPolicy(store), NodeAuthorizer(NodeRelations(store)))

    def root_of(resource: Resource) -> Shape:
        return registry.ownership.kind(resource).root

    shape_of = partial(_shape_of, schema)
    chain = build_chain(
        PluginDependencies(
            store,
            resources,
            authorizer,
            webhooks,
            metrics.registry,
            shape_of,
            root_of,
            settings.clock,
            settings.admission_plugins,
        )
    )
    registry = Registry(resources, store, schema, settings.clock, chain)
    definitions = Definitions(registry, metadata, webhooks)
    definitions.load()
    legacy_tokens = LegacyTokenUses(registry)
    tokens = TokenAuthority(settings.signing_key, store, settings.clock, settings.tokens, legacy_tokens.record)
    authenticator = Authenticator(settings.users, tokens, _jwt_issuers(settings), settings.request_headers)
    applier = Applier(registry, authorizer)
    rendering = Rendering(registry, schema)
    kubelets = KubeletAccess(settings.kubelet_tls)
    connections = Connections()
    trimmer = Trimmer()
    flow_control = FlowControl(registry)
    metrics.registry.register(PriorityLevelMetrics(lambda: flow_control.levels))

    def not_shutting_down() -> str | None:
        return "process is shutting down" if watches.closed else None

    health = _health(store, not_shutting_down)
    discovery, openapi = Discovery(resources, (*health.paths, *_PATHS), settings.address), OpenApi(resources)
    transport = Transport(settings.proxy_certificate)
    aggregator = Aggregator(registry, discovery, openapi, connections, transport)
    if settings.auditor is not None:
        settings.auditor.use_schema(schema)
    application = Application(
        authenticator=authenticator,
        authorizer=authorizer,
        dispatch=Dispatch(
            registry,
            Objects(registry, applier, authorizer, watches, rendering),
            Subresources(registry, tokens, applier, schema),
            rendering,
        ),
        reviews=Reviews(authorizer, authenticator, schema),
        pod_streams=PodStreams(registry, authorizer, kubelets),
        proxy=ProxySubresource(registry, kubelets, connections),
        aggregator=aggregator,
        non_resource_urls=NonResourceUrls(
            health=health,
            metrics=metrics,
            zpages=ZPages("kube-apiserver", settings.flags, _PAGES, settings.clock),
            # The store is completely loaded before the server is built.
            issuer=IssuerDiscovery(tokens, settings.jwks_uri),
            openapi=openapi,
            discovery=discovery,
            rendering=rendering,
            catch_up=registry.catch_up,
        ),
        metrics=metrics,
        unsent=UnsentBudget(on_freed=trimmer.on_freed),
        rendering=rendering,
        flow_control=flow_control,
        has_news=registry.has_news,
        begin_trail=begin_unaudited if settings.auditor is None else settings.auditor.begin,
    )
    return ApiParts(
        application,
        resources,
        registry,
        schema,
        definitions,
        tokens,
        watches,
        kubelets,
        webhooks,
        aggregator,
        transport,
        connections,
        trimmer,
        flow_control,
        QuotaUsage(registry),
    )
