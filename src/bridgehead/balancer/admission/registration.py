"""Registration of the webhook at the API server: an own configuration, and those of MetalLB's and OpenELB's manifests.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Collection
from typing import Any, Final

from bridgehead.objects.addresses import join_host_port
from bridgehead.objects.endpoint_slices import MANAGED_BY_LABEL, SERVICE_NAME_LABEL, EndpointSlice
from bridgehead.objects.extensions import (
    WEBHOOK_CONFIGURATIONS,
    CustomResourceDefinition,
    ValidatingWebhookConfiguration,
    WebhookClientConfig,
)
from bridgehead.objects.meta import ObjectKey

Json = dict[str, Any]

NAME: Final = "bridgehead-balancer"
# The Services to which the webhooks of the published manifests lead.
ADOPTED_SERVICES: Final = (
    ObjectKey("metallb-system", "metallb-webhook-service"),
    ObjectKey("openelb-system", "openelb-controller"),
)
# Their configurations; RBAC lets the controller change no others.
ADOPTED_CONFIGURATIONS: Final = ("metallb-webhook-configuration", "openelb-admission")
CONVERTED_DEFINITION: Final = "bgppeers.metallb.io"
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
    """Return the JSON patch that makes the webhooks of adopted Services trust `ca`; empty if they do already."""
    if configuration.metadata.name not in ADOPTED_CONFIGURATIONS:
        return []
    text = _text(ca)
    return [
        {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": text}
        for index, webhook in enumerate(configuration.webhooks)
        if adopted_service(webhook.client_config) in adopted and webhook.client_config.ca_bundle != text
    ]


def conversion_patch(definition: CustomResourceDefinition, ca: bytes, adopted: Collection[ObjectKey]) -> list[Json]:
    """Return the JSON patch that makes the conversion of a definition trust `ca`; empty if it does already."""
    webhook = definition.spec.conversion.webhook
    config = webhook.client_config if webhook is not None else None
    if config is None or adopted_service(config) not in adopted or config.ca_bundle == _text(ca):
        return []
    return [{"op": "add", "path": "/spec/conversion/webhook/clientConfig/caBundle", "value": _text(ca)}]


def is_answered_by_others(slices: Collection[EndpointSlice], service: ObjectKey) -> bool:
    """Whether pods of the Service's own are ready; then its webhooks are theirs."""
    return any(
        slice_.service_key == service and slice_.metadata.name != NAME and endpoint.conditions.ready is not False
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
