"""The balancer's webhook at a real API server: its own registration, and those of published manifests."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bridgehead.balancer.admission.identity import make_identity
from bridgehead.balancer.admission.registrar import Registrar
from bridgehead.balancer.admission.registration import ADOPTED_SERVICES, NAME
from bridgehead.balancer.admission.serving import serving
from bridgehead.client import ApiClient
from bridgehead.client.errors import ApiError, NotFound
from bridgehead.objects.extensions import DEFINITIONS, WEBHOOK_CONFIGURATIONS
from bridgehead.objects.kinds import ENDPOINT_SLICES, NAMESPACES, SERVICES, Kind
from bridgehead.objects.meta import Object

from .api_world import ApiWorld, api_world, running, until
from .namespaced import in_namespace, sh

pytestmark = pytest.mark.integration

ADDRESS = "192.0.2.10"
POOLS = Kind(Object, "metallb.io", "v1beta1", "ipaddresspools")
METALLB = ADOPTED_SERVICES[0]


def refuse_bad_names(group: str, resource: str, operation: str, old: Any, new: Any) -> str:
    return f"{resource}: bad name" if new and new["metadata"]["name"].startswith("bad") else ""


def convert(obj: dict[str, Any], version: str) -> dict[str, Any]:
    return obj | {"apiVersion": version}


@contextlib.asynccontextmanager
async def registered(client: ApiClient) -> AsyncIterator[None]:
    names = [f"{service.name}.{service.namespace}.svc" for service in ADOPTED_SERVICES]
    identity = make_identity([ADDRESS, *names])
    async with (
        serving(ADDRESS, 0, identity, refuse_bad_names, convert) as port,
        running(Registrar(client, ADDRESS, port, identity.ca).run()),
    ):
        yield


async def define_pools(client: ApiClient) -> None:
    definition = {
        "metadata": {"name": "ipaddresspools.metallb.io"},
        "spec": {
            "group": "metallb.io",
            "names": {"plural": "ipaddresspools", "singular": "ipaddresspool", "kind": "IPAddressPool"},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": "v1beta1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                }
            ],
        },
    }
    await client.create(DEFINITIONS, definition)
    await client.create(NAMESPACES, {"metadata": {"name": METALLB.namespace}})


async def refusal(client: ApiClient, name: str) -> str:
    """Return the text of the refusal of a pool with this name, "" if it is stored."""
    pool = {"apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool"}
    try:
        await client.create(POOLS, pool | {"metadata": {"name": name, "namespace": METALLB.namespace}})
    except NotFound:
        return "not served yet"
    except ApiError as error:
        return str(error)
    await client.delete(POOLS, name, METALLB.namespace)
    return ""


async def create_published_webhook(client: ApiClient) -> None:
    """As in MetalLB's manifest: the Service of its controller, and a webhook that must answer."""
    service = {"metadata": {"namespace": METALLB.namespace, "name": METALLB.name}}
    await client.create(SERVICES, service | {"spec": {"ports": [{"port": 443, "targetPort": 9443}]}})
    webhook = {
        "name": "ipaddresspoolvalidationwebhook.metallb.io",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {
            "service": {
                "namespace": METALLB.namespace,
                "name": METALLB.name,
                "path": "/validate-metallb-io-v1beta1-ipaddresspool",
            }
        },
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "rules": [
            {
                "apiGroups": ["metallb.io"],
                "apiVersions": ["v1beta1"],
                "operations": ["CREATE", "UPDATE"],
                "resources": ["ipaddresspools"],
            }
        ],
    }
    await client.create(
        WEBHOOK_CONFIGURATIONS, {"metadata": {"name": "metallb-webhook-configuration"}, "webhooks": [webhook]}
    )


@contextlib.asynccontextmanager
async def world() -> AsyncIterator[tuple[ApiWorld, ApiClient]]:
    sh(f"ip addr add {ADDRESS}/32 dev lo")  # the API refuses endpoints on loopback's own addresses
    async with api_world() as api, ApiClient(api.config) as client:
        await define_pools(client)
        await until(lambda: is_served(client))
        yield api, client


async def is_served(client: ApiClient) -> bool:
    return await refusal(client, "good") == ""


@in_namespace
async def test_the_balancer_refuses_objects_at_admission():
    async with world() as (_, client):
        async with registered(client):
            expected = 'admission webhook "configuration.bridgehead.io" denied the request: ipaddresspools: bad name'

            async def is_refused() -> bool:
                return expected in await refusal(client, "bad")

            await until(is_refused)
            assert await refusal(client, "good") == ""
        # A cluster whose balancer is gone stays usable.
        assert await refusal(client, "bad") == ""
        # The next run has another port and another CA.
        async with registered(client):
            await until(is_refused)


@in_namespace
async def test_the_webhooks_of_a_published_manifest_are_answered():
    async with world() as (_, client):
        await create_published_webhook(client)
        assert "failed calling webhook" in await refusal(client, "good"), "MetalLB's own controller does not run"
        async with registered(client):

            async def is_answered() -> bool:
                return await refusal(client, "good") == "" and "bad name" in await refusal(client, "bad")

            await until(is_answered)
            (slice_,) = (await client.list(ENDPOINT_SLICES, METALLB.namespace)).items
            assert slice_.metadata.name == NAME


@in_namespace
async def test_a_running_controller_of_the_manifest_keeps_its_webhooks():
    async with world() as (_, client):
        await create_published_webhook(client)
        slice_ = {
            "metadata": {
                "namespace": METALLB.namespace,
                "name": "metallb-webhook-service-abc",
                "labels": {"kubernetes.io/service-name": METALLB.name},
            },
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["192.0.2.99"], "conditions": {"ready": True}}],
            "ports": [{"name": "", "port": 9443, "protocol": "TCP"}],
        }
        await client.create(ENDPOINT_SLICES, slice_)
        async with registered(client):

            async def is_registered() -> bool:
                return any(item.metadata.name == NAME for item in (await client.list(WEBHOOK_CONFIGURATIONS)).items)

            await until(is_registered)
            stored = await client.get(WEBHOOK_CONFIGURATIONS, "metallb-webhook-configuration")
            assert stored.webhooks[0].client_config.ca_bundle == ""
            assert [item.metadata.name for item in (await client.list(ENDPOINT_SLICES, METALLB.namespace)).items] == [
                "metallb-webhook-service-abc"
            ]
