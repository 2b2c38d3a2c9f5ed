"""Parts of the server that plug-ins need."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from bridgehead.apiserver.access.authorization import Authorizer
from bridgehead.apiserver.resource import Resource
from bridgehead.apiserver.shapes import Shape
from bridgehead.apiserver.table import ResourceTable
from bridgehead.apiserver.webhookclient.client import WebhookClient
from bridgehead.storage import Store

# Returns the shape of (group, version, kind), which is the resource's own kind or that of a subresource.
ShapeOf = Callable[[Resource, tuple[str, str, str]], Shape]
# Returns the shape of a resource's whole objects, for merges.
RootOf = Callable[[Resource], Shape]


@dataclass(frozen=True, slots=True)
class PluginDependencies:
    """Parts of the server. `metrics` is the registry of its metrics, `clock` returns seconds since the epoch.

    `enabled`: names of optional plug-ins.
    """

    store: Store
    table: ResourceTable
    authorizer: Authorizer
    webhooks: WebhookClient
    metrics: CollectorRegistry
    shape_of: ShapeOf
    root_of: RootOf
    clock: Callable[[], float]
    enabled: Collection[str] = ()
