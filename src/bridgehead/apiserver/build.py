"""Assembly of an API server from its parts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from bridgehead.heap import Trimmer
from bridgehead.storage import Store

from .access.authentication import Authenticator
from .access.authorization import Authorizer
from .access.node_authorizer import NodeAuthorizer
from .access.rbac.stored_policy import StoredPolicy
from .access.tokens import SigningKey, TokenAuthority
from .admission.parts import AdmissionParts
from .admission.plugins import build_chain
from .admission.resource_quota import Charges
from .app import Application
from .bodies.protobuf import plain_scalars
from .bodies.schema import OBJECT_META, JsonShape, LazyDefinitions, Schema, Shape
from .customresources.controller import Definitions
from .customresources.kind import definition_resource
from .fieldmanagement.types import MapType
from .flowcontrol.control import FlowControl
from .flowcontrol.metrics import PriorityLevelMetrics
from .handlers.apply import Applier
from .handlers.discovery import Discovery
from .handlers.health import Health
from .handlers.metrics import Metrics
from .handlers.objects import Handlers
from .handlers.openapi import OpenApi
from .handlers.rendering import Rendering
from .handlers.reviews import Reviews
from .handlers.subresources import Subresources
from .http.unsent import UnsentBudget
from .http.user import User
from .proxying.aggregation.aggregator import Aggregator
from .proxying.aggregation.transport import ProxyCertificate, Transport
from .proxying.connections import Connections
from .proxying.subresource import ProxySubresource
from .registry.quota_usage import QuotaUsage
from .registry.registry import Registry
from .registry.watching import OpenWatches
from .resource import Resource
from .streams.kubelet_access import KubeletAccess, KubeletTls
from .streams.pod_streams import PodStreams
from .table import ResourceTable
from .webhookclient.client import WebhookClient


@dataclass(frozen=True, slots=True)
class ApiParts:
    """A complete API server. `application` is served; `serve` and tests use the other parts."""

    application: Application
    table: ResourceTable
    registry: Registry
    definitions: Definitions
    tokens: TokenAuthority
    watches: OpenWatches
    kubelets: KubeletAccess
    webhooks: WebhookClient
    aggregator: Aggregator
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

    `proxy_certificate` is for the servers of aggregated APIs.
    """

    signing_key: SigningKey
    kubelet_tls: KubeletTls | None = None
    proxy_certificate: ProxyCertificate | None = None
    users: Mapping[str, User] = field(default_factory=dict)
    clock: Callable[[], float] = time.time


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


def _succeed() -> str | None:
    return None


def build_api(table: Sequence[Resource], store: Store, settings: ApiSettings) -> ApiParts:
    """Assemble a server. Raises KeyError when the schema has no definition for a kind of the table."""
    schema = Schema(LazyDefinitions(), plain_scalars)

    def metadata() -> Shape:
        return schema.of_definition(OBJECT_META)

    resources = ResourceTable((*table, definition_resource(metadata)))
    metrics, webhooks = Metrics(), WebhookClient(store)
    authorizer = Authorizer(StoredPolicy(store), NodeAuthorizer(store))

    def type_of(resource: Resource) -> MapType:
        return registry.ownership.kind(resource).root

    shape_of = partial(_shape_of, schema)
    charges = Charges()
    parts = AdmissionParts(store, resources, authorizer, webhooks, metrics.registry, charges, shape_of, type_of)
    chain = build_chain(parts)
    registry = Registry(resources, store, schema, settings.clock, chain)
    definitions = Definitions(registry, metadata, webhooks)
    definitions.load()
    tokens = TokenAuthority(settings.signing_key, store, settings.clock)
    applier = Applier(registry, authorizer)
    watches = OpenWatches()
    rendering = Rendering(registry, schema)
    kubelets = KubeletAccess(settings.kubelet_tls)
    connections = Connections()
    trimmer = Trimmer()
    flow_control = FlowControl(registry)
    metrics.registry.register(PriorityLevelMetrics(lambda: flow_control.levels))

    def not_shutting_down() -> str | None:
        return "process is shutting down" if watches.closed else None

    discovery, openapi = Discovery(resources), OpenApi(resources)
    aggregator = Aggregator(registry, discovery, openapi, connections, Transport(settings.proxy_certificate))
    application = Application(
        authenticator=Authenticator(settings.users, tokens.verify),
        authorizer=authorizer,
        handlers=Handlers(
            registry,
            Subresources(registry, tokens, applier, schema),
            applier,
            authorizer,
            watches,
            rendering,
        ),
        reviews=Reviews(authorizer, tokens, schema),
        pod_streams=PodStreams(registry, kubelets),
        proxy=ProxySubresource(registry, kubelets, connections),
        aggregator=aggregator,
        discovery=discovery,
        openapi=openapi,
        # The store is completely loaded before the server is built.
        health=Health({"ping": _succeed}, {"ping": _succeed, "store": _succeed, "shutdown": not_shutting_down}),
        metrics=metrics,
        unsent=UnsentBudget(on_freed=trimmer.on_freed),
        rendering=rendering,
        flow_control=flow_control,
    )
    return ApiParts(
        application,
        resources,
        registry,
        definitions,
        tokens,
        watches,
        kubelets,
        webhooks,
        aggregator,
        connections,
        trimmer,
        flow_control,
        QuotaUsage(registry, charges),
    )
