"""The balancer's webhook at a real API server: its own registration, and those of published manifests."""

from __future__ import annotations

import base64
import contextlib
import functools
from collections.abc import AsyncIterator
from typing import Any
from unittest import mock

import pytest

from bridgehead.balancer.admission.deregistration import give_back
from bridgehead.balancer.admission.registrar import Registrar
from bridgehead.balancer.admission.registration import ADOPTED_SERVICES, NAME
from bridgehead.balancer.admission.server_identity import make_identity
from bridgehead.balancer.admission.webhook_server import serving
from bridgehead.balancer.controller import unanswered_webhooks as module
from bridgehead.balancer.controller.controller import ControllerSettings
from bridgehead.balancer.controller.other_balancer_watch import OtherBalancerWatch
from bridgehead.balancer.controller.stepping_controller import SteppingController
from bridgehead.client import ApiClient, EventRecorder
from bridgehead.client.errors import ApiError, NotFound
from bridgehead.objects.extensions import DEFINITIONS, WEBHOOK_CONFIGURATIONS
from bridgehead.objects.kinds import ENDPOINT_SLICES, EVENTS, NAMESPACES, PODS, SERVICE_ACCOUNTS, SERVICES, Kind
from bridgehead.objects.meta import Object

from .api_world import ApiWorld, api_world, running, until
from .namespaced import in_namespace, sh
from .webhook_server import certificates

pytestmark = pytest.mark.integration

ADDRESS = "192.0.2.10"
POOLS = Kind(Object, "metallb.io", "v1beta1", "ipaddresspools")
METALLB = ADOPTED_SERVICES[0]
OTHERS_CA, _ = certificates()


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


async def no_end() -> None:
    pass


async def leave_traces(client: ApiClient) -> None:
    """Do what a balancer does that is killed while it answers the webhooks."""
    registrar = Registrar(client, ADDRESS, 9, make_identity([ADDRESS]).ca)
    registrar._end = no_end
    async with running(registrar.run()):
        await until(functools.partial(is_adopted, client))
    assert await is_adopted(client)


async def bundle_of(client: ApiClient) -> str:
    configuration = await client.get(WEBHOOK_CONFIGURATIONS, "metallb-webhook-configuration")
    return configuration.webhooks[0].client_config.ca_bundle


async def write_bundle(client: ApiClient, bundle: str) -> None:
    patch = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle}]
    await client.patch(WEBHOOK_CONFIGURATIONS, "metallb-webhook-configuration", "", patch, "json")


async def is_adopted(client: ApiClient) -> bool:
    names = [item.metadata.name for item in (await client.list(ENDPOINT_SLICES, METALLB.namespace)).items]
    return NAME in names and bool(await bundle_of(client))


async def traces(client: ApiClient) -> list[str]:
    """Return what a balancer has left in the cluster: its own configuration, slices, CAs."""
    slices = (await client.list(ENDPOINT_SLICES, METALLB.namespace)).items
    configurations = (await client.list(WEBHOOK_CONFIGURATIONS)).items
    return [
        *(f"slice {item.metadata.name}" for item in slices if item.metadata.name == NAME),
        *(item.metadata.name for item in configurations if item.metadata.name == NAME),
        *(
            f"CA in {item.metadata.name}"
            for item in configurations
            for webhook in item.webhooks
            if item.metadata.name != NAME and webhook.client_config.ca_bundle
        ),
    ]


def slice_of_their_pod(*, ready: bool = True, name: str = "metallb-webhook-service-abc") -> dict[str, Any]:
    return {
        "metadata": {
            "namespace": METALLB.namespace,
            "name": name,
            "labels": {"kubernetes.io/service-name": METALLB.name},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["192.0.2.99"], "conditions": {"ready": ready}}],
        "ports": [{"name": "", "port": 9443, "protocol": "TCP"}],
    }


async def create_published_webhook(client: ApiClient) -> None:
    """Create what MetalLB's manifest has: the Service of its controller, and a webhook that must answer."""
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

            configuration = await client.get(WEBHOOK_CONFIGURATIONS, "metallb-webhook-configuration")
            assert configuration.webhooks[0].client_config.ca_bundle
        # At its end, the balancer gives back what it has adopted, and its own registration.
        assert await traces(client) == []


@in_namespace
async def test_the_controller_of_the_manifest_gets_its_webhooks_back():
    """While both were endpoints of the Service, half of all calls failed."""
    async with world() as (_, client):
        await create_published_webhook(client)
        async with registered(client):
            await until(functools.partial(is_adopted, client))
            await client.create(ENDPOINT_SLICES, slice_of_their_pod(ready=False))
            assert await is_adopted(client)
            await client.patch(
                ENDPOINT_SLICES,
                "metallb-webhook-service-abc",
                METALLB.namespace,
                {"endpoints": [{"addresses": ["192.0.2.99"], "conditions": {"ready": True}}]},
            )

            async def is_returned() -> bool:
                return await traces(client) == [NAME]

            await until(is_returned)
            # Its controller ends: this one answers again.
            await client.delete(ENDPOINT_SLICES, "metallb-webhook-service-abc", METALLB.namespace)
            await until(functools.partial(is_adopted, client))
            # Its manifest is deleted, except for the Service.
            await client.delete(WEBHOOK_CONFIGURATIONS, "metallb-webhook-configuration")
            await until(is_returned)


@in_namespace
async def test_the_ca_of_the_manifest_is_kept_and_is_alone_in_the_end():
    async with world() as (_, client):
        await create_published_webhook(client)
        bundle = base64.b64encode(OTHERS_CA).decode()
        await write_bundle(client, bundle)
        async with registered(client):

            async def is_answered() -> bool:
                return "bad name" in await refusal(client, "bad")

            await until(is_answered)
            assert base64.b64decode(await bundle_of(client)).startswith(OTHERS_CA)
        assert await bundle_of(client) == bundle


@in_namespace
async def test_a_controller_that_starts_does_not_fight_for_its_ca():
    """MetalLB's writes its CA whenever it is another one, before its pod is ready."""
    async with world() as (_, client):
        await create_published_webhook(client)
        theirs = base64.b64encode(OTHERS_CA).decode()
        async with registered(client):
            await until(functools.partial(is_adopted, client))
            writes = 0

            async def is_theirs() -> bool:
                nonlocal writes
                if await bundle_of(client) != theirs:
                    await write_bundle(client, theirs)
                    writes += 1
                return writes > 2

            await until(is_theirs)
            version = (await client.get(WEBHOOK_CONFIGURATIONS, "metallb-webhook-configuration")).metadata
            await refusal(client, "good")  # an event of other objects later
            found = (await client.get(WEBHOOK_CONFIGURATIONS, "metallb-webhook-configuration")).metadata
            assert found.resource_version == version.resource_version
        assert await bundle_of(client) == theirs


@in_namespace
async def test_cleanup_removes_what_a_killed_balancer_has_left():
    async with world() as (_, client):
        await create_published_webhook(client)
        await leave_traces(client)
        assert len(await give_back(client)) == 3
        assert await traces(client) == []
        assert await give_back(client) == []


@in_namespace
async def test_a_running_controller_of_the_manifest_keeps_its_webhooks():
    async with world() as (_, client):
        await create_published_webhook(client)
        await client.create(ENDPOINT_SLICES, slice_of_their_pod())
        async with registered(client):

            async def is_registered() -> bool:
                return any(item.metadata.name == NAME for item in (await client.list(WEBHOOK_CONFIGURATIONS)).items)

            await until(is_registered)
            stored = await client.get(WEBHOOK_CONFIGURATIONS, "metallb-webhook-configuration")
            assert stored.webhooks[0].client_config.ca_bundle == ""
            assert [item.metadata.name for item in (await client.list(ENDPOINT_SLICES, METALLB.namespace)).items] == [
                "metallb-webhook-service-abc"
            ]


@in_namespace
async def test_webhooks_that_nobody_answers_are_reported_once():
    """A balancer without --webhook: MetalLB's webhooks let no pool be changed, and nothing reported it."""
    with (
        mock.patch.object(module, "_PATIENCE_SECONDS", 0.05),
        mock.patch.object(module, "log") as log,
    ):
        await report_unanswered(log.warning)


async def report_unanswered(warning: mock.Mock) -> None:
    async with world() as (_, client):
        recorder = EventRecorder(client, "metallb-controller")
        watch = module.UnansweredWatch(client, recorder, OtherBalancerWatch(client, ""), has_webhook=False)

        async def events() -> list[str]:
            found = (await client.list(EVENTS, "default")).items
            return [event.message for event in found if event.reason == "WebhooksUnanswered"]

        async def is_reported() -> bool:
            return bool(await events())

        async with running(watch.run()), running(recorder.run()):
            await create_published_webhook(client)
            await until(is_reported)
            (message,) = await events()
            assert "start `bridgehead balancer` with --webhook" in message
            assert "metallb-system/metallb-webhook-service has no ready endpoint" in message
            for number in range(3):  # changes of other objects lead to no other Event
                await client.create(ENDPOINT_SLICES, slice_of_their_pod(ready=False, name=f"s{number}"))
            await client.patch(
                ENDPOINT_SLICES,
                "s0",
                METALLB.namespace,
                {"endpoints": [{"addresses": ["192.0.2.99"], "conditions": {"ready": True}}]},
            )

            async def is_forgotten() -> bool:
                return not watch.reported

            await until(is_forgotten)
        assert len(await events()) == 1
        warning.assert_called_once()


@in_namespace
async def test_the_next_balancer_gives_back_what_a_killed_one_has_left():
    """A slice that is left is an endpoint at which nobody answers: half of all calls of the webhook fail."""
    async with world() as (_, client):
        await create_published_webhook(client)

        async def is_returned() -> bool:
            return await traces(client) == []

        await leave_traces(client)
        async with running(SteppingController(client, ControllerSettings()).run()):  # without --webhook
            await until(is_returned)
        await leave_traces(client)
        await create_pod_of_metallb(client)
        async with running(SteppingController(client, ControllerSettings(webhook=(ADDRESS, 0))).run()):
            await until(is_returned)


async def create_pod_of_metallb(client: ApiClient) -> None:
    """Create a pod of MetalLB's own controller, which is ready."""
    image = "quay.io/metallb/controller"
    spec = {"containers": [{"name": "c", "image": image}], "nodeName": "node1"}
    await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default", "namespace": METALLB.namespace}})
    labels = {"app": "metallb"}
    await client.create(
        PODS, {"metadata": {"name": "controller-x", "namespace": METALLB.namespace, "labels": labels}, "spec": spec}
    )
    state = {"name": "c", "image": image, "imageID": f"{image}@sha256:{'0' * 64}", "ready": True, "restartCount": 0}
    state["state"] = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [state]}
    await client.patch(PODS, "controller-x", METALLB.namespace, {"status": status}, subresource="status")
