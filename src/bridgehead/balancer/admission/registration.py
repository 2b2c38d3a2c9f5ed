"""Registration of the webhook at the API server: an own configuration, and those of MetalLB's and OpenELB's manifests.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Collection, Iterable
from typing import Any, Final

from bridgehead.objects.addresses import join_host_port
from bridgehead.objects.endpoint_slices import MANAGED_BY_LABEL, SERVICE_NAME_LABEL, EndpointSlice
from bridgehead.objects.extensions import (
    WEBHOOK_CONFIGURATIONS,
    CustomResourceDefinition,
    ValidatingWebhookConfiguration,
    WebhookClientConfig,
)
from bridgehead.objects.meta import Object, ObjectKey

from .ca_bundle import with_ca, without_ca

Json = dict[str, Any]

NAME: Final = "bridgehead-balancer"
# The Services to which the webhooks of the published manifests lead, also those of older versions (MetalLB before 0.14,
# OpenELB before 0.6).
ADOPTED_SERVICES: Final = (
    ObjectKey("metallb-system", "metallb-webhook-service"),
    ObjectKey("metallb-system", "webhook-service"),
    ObjectKey("openelb-system", "openelb-controller"),
    ObjectKey("openelb-system", "openelb-admission"),
)
# Webhook configurations of these; RBAC lets the controller change no others.
ADOPTED_CONFIGURATIONS: Final = ("metallb-webhook-configuration", "openelb-admission")
CONVERTED_DEFINITION: Final = "bgppeers.metallb.io"
_CONVERSION = "/spec/conversion/webhook/clientConfig/caBundle"
_SECONDS = 5


def own_configuration(address: str, port: int, ca: bytes) -> Json:
    """Return the configuration by which the API server asks this process.

    The failure policy is Ignore: while the balancer does not run, objects are stored unseen, and it judges them later.
    """
    url = f"https://{join_host_port(address, port)}/validate"
    webhook = {
        "name": "configuration.bridgehead.io",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": url, "caBundle": _text(ca)},
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "timeoutSeconds": _SECONDS,
        "rules": [
            {
                "apiGroups": ["metallb.io", "network.kubesphere.io"],
                "apiVersions": ["*"],
                "operations": ["CREATE", "UPDATE", "DELETE"],
                "resources": [
                    "ipaddresspools",
                    "l2advertisements",
                    "bgpadvertisements",
                    "bgppeers",
                    "bfdprofiles",
                    "communities",
                    "eips",
                    "bgpconfs",
                ],
            }
        ],
    }
    return {
        "apiVersion": WEBHOOK_CONFIGURATIONS.api_version,
        "kind": WEBHOOK_CONFIGURATIONS.name,
        "metadata": {"name": NAME},
        "webhooks": [webhook],
    }


def is_registered(configuration: ValidatingWebhookConfiguration, wanted: Json) -> bool:
    """Whether the stored own configuration leads where `wanted` does."""
    client_config = wanted["webhooks"][0]["clientConfig"]
    return [(webhook.client_config.url, webhook.client_config.ca_bundle) for webhook in configuration.webhooks] == [
        (client_config["url"], client_config["caBundle"])
    ]


def adopted_service(config: WebhookClientConfig | None) -> ObjectKey | None:
    """Return the Service of a published manifest to which a client configuration leads, if it is one."""
    if config is None or config.service is None:
        return None
    key = ObjectKey(config.service.namespace, config.service.name)
    return key if key in ADOPTED_SERVICES else None


def ca_patch(configuration: ValidatingWebhookConfiguration, ca: bytes, adopted: Collection[ObjectKey]) -> list[Json]:
    """Return the JSON patch that makes the webhooks of adopted Services trust `ca`, and no others; empty if none has to
    change."""
    if configuration.metadata.name not in ADOPTED_CONFIGURATIONS:
        return []
    changes = [
        _bundle_change(f"/webhooks/{index}/clientConfig/caBundle", webhook.client_config, ca, adopted)
        for index, webhook in enumerate(configuration.webhooks)
    ]
    return _patch(configuration, changes)


def conversion_patch(definition: CustomResourceDefinition, ca: bytes, adopted: Collection[ObjectKey]) -> list[Json]:
    """Return the JSON patch that makes the conversion of a definition trust `ca` if it leads to an adopted Service, and
    not otherwise; empty if it has not to change."""
    return _patch(definition, [_bundle_change(_CONVERSION, _conversion_config(definition), ca, adopted)])


def ca_removal(configuration: ValidatingWebhookConfiguration, ca: bytes | None) -> list[Json]:
    """Return the JSON patch that removes `ca`, or all CAs of the balancer, from a published manifest's webhooks."""
    if configuration.metadata.name not in ADOPTED_CONFIGURATIONS:
        return []
    changes = [
        _bundle_removal(f"/webhooks/{index}/clientConfig/caBundle", webhook.client_config, ca)
        for index, webhook in enumerate(configuration.webhooks)
    ]
    return _patch(configuration, changes)


def conversion_removal(definition: CustomResourceDefinition, ca: bytes | None) -> list[Json]:
    """Return the JSON patch that removes `ca`, or all CAs of the balancer, from the conversion of a definition."""
    return _patch(definition, [_bundle_removal(_CONVERSION, _conversion_config(definition), ca)])


def _conversion_config(definition: CustomResourceDefinition) -> WebhookClientConfig | None:
    webhook = definition.spec.conversion.webhook
    return webhook.client_config if webhook is not None else None


def _bundle_change(
    path: str, config: WebhookClientConfig | None, ca: bytes, adopted: Collection[ObjectKey]
) -> Json | None:
    if config is None:
        return None
    if adopted_service(config) not in adopted:
        return _bundle_removal(path, config, None)
    return _bundle_patch(path, config.ca_bundle, with_ca(config.ca_bundle, ca))


def _bundle_removal(path: str, config: WebhookClientConfig | None, ca: bytes | None) -> Json | None:
    return None if config is None else _bundle_patch(path, config.ca_bundle, without_ca(config.ca_bundle, ca))


def _bundle_patch(path: str, before: str, wanted: str) -> Json | None:
    if wanted == before:
        return None
    return {"op": "add", "path": path, "value": wanted} if wanted else {"op": "remove", "path": path}


def _patch(obj: Object, changes: Iterable[Json | None]) -> list[Json]:
    """Return the changes as one JSON patch, which is a conflict if the object is another one by now."""
    operations = [change for change in changes if change is not None]
    if not operations:
        return []
    version = obj.metadata.resource_version
    return [{"op": "replace", "path": "/metadata/resourceVersion", "value": version}, *operations]


def unanswered(
    configurations: Iterable[ValidatingWebhookConfiguration],
    slices: Iterable[EndpointSlice],
    stand_ins: Collection[str] = (),
) -> dict[str, ObjectKey]:
    """Return the configurations of published manifests that block every change, each with the Service that has no ready
    endpoint.

    An own slice answers only webhooks that trust this process, as do `stand_ins` (uids of pods), which pass calls on to
    it. Any namespace counts: a Helm release can be in another one.
    """
    names = {service.name for service in ADOPTED_SERVICES}
    answered = {
        (slice_.service_key, is_own_slice(slice_))
        for slice_ in slices
        if any(endpoint.conditions.is_ready and endpoint.pod_uid not in stand_ins for endpoint in slice_.endpoints)
    }
    blocking: dict[str, ObjectKey] = {}
    for configuration in configurations:
        for webhook in configuration.webhooks:
            reference = webhook.client_config.service
            if reference is None or reference.name not in names or webhook.failure_policy != "Fail":
                continue
            service = ObjectKey(reference.namespace, reference.name)
            is_adopted = configuration.metadata.name in ADOPTED_CONFIGURATIONS and (service, True) in answered
            if not is_adopted and (service, False) not in answered:
                blocking.setdefault(configuration.metadata.name, service)
    return blocking


def own_slice_selector() -> str:
    """Return the label selector of all EndpointSlices that lead a Service of a published manifest to a balancer."""
    return f"{MANAGED_BY_LABEL}={NAME}"


def is_own_slice(slice_: EndpointSlice) -> bool:
    """Whether a balancer made the EndpointSlice, this one or an earlier one."""
    return slice_.metadata.name == NAME and slice_.metadata.labels.get(MANAGED_BY_LABEL) == NAME


def leads_to(slice_: EndpointSlice, address: str, port: int | None = None) -> bool:
    """Whether an EndpointSlice leads to `address` alone and, if given, to `port`."""
    ports = {item.port for item in slice_.ports or ()}
    return [endpoint.addresses for endpoint in slice_.endpoints] == [(address,)] and (port is None or ports == {port})


def is_answered_by_others(
    slices: Collection[EndpointSlice], service: ObjectKey, stand_ins: Collection[str] = ()
) -> bool:
    """Whether pods of the Service's own are ready; then its webhooks are theirs.

    `stand_ins`: uids of pods that pass the calls on.
    """
    return any(
        slice_.service_key == service
        and not is_own_slice(slice_)
        and endpoint.conditions.is_ready
        and endpoint.pod_uid not in stand_ins
        for slice_ in slices
        for endpoint in slice_.endpoints
    )


def adopting_slice(service: Json, address: str, port: int) -> Json:
    """Return the EndpointSlice that leads an adopted Service to this process. `service` is the Service as JSON."""
    metadata = service["metadata"]
    version = ipaddress.ip_address(address).version
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": NAME,
            "namespace": metadata["namespace"],
            "labels": {SERVICE_NAME_LABEL: metadata["name"], MANAGED_BY_LABEL: NAME},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Service", "name": metadata["name"], "uid": metadata["uid"]}
            ],
        },
        "addressType": f"IPv{version}",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [{"name": spec.get("name", ""), "port": port, "protocol": "TCP"} for spec in service["spec"]["ports"]],
    }


def _text(ca: bytes) -> str:
    return base64.b64encode(ca).decode()
