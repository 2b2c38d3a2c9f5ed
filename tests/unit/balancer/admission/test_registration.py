"""The own webhook configuration, and the adoption of those of published manifests."""

from __future__ import annotations

import base64

import msgspec

from bridgehead.balancer.admission.registration import (
    ADOPTED_SERVICES,
    NAME,
    adopting_slice,
    ca_patch,
    conversion_patch,
    is_answered_by_others,
    is_registered,
    own_configuration,
)
from bridgehead.client.codec import codec_of
from bridgehead.objects.extensions import (
    DEFINITIONS,
    WEBHOOK_CONFIGURATIONS,
    CustomResourceDefinition,
    ValidatingWebhookConfiguration,
)
from bridgehead.objects.kinds import ENDPOINT_SLICES
from bridgehead.objects.meta import ObjectKey

CA = b"certificate"
CA_TEXT = base64.b64encode(CA).decode()
METALLB, OPENELB = ADOPTED_SERVICES


def configuration(
    *services: tuple[str, str], ca: str = "", name: str = "metallb-webhook-configuration"
) -> ValidatingWebhookConfiguration:
    webhooks = [
        {"name": "w", "clientConfig": {"service": {"namespace": namespace, "name": service}, "caBundle": ca}}
        for namespace, service in services
    ]
    obj = {"metadata": {"name": name}, "webhooks": webhooks}
    return codec_of(WEBHOOK_CONFIGURATIONS).decode_object(encode(obj))


def encode(obj: object) -> bytes:
    return msgspec.json.encode(obj)


def slice_(name: str, ready: bool | None = True, service: ObjectKey = METALLB):
    obj = {
        "metadata": {
            "name": name,
            "namespace": service.namespace,
            "labels": {"kubernetes.io/service-name": service.name},
        },
        "endpoints": [{"addresses": ["10.244.1.2"], "conditions": {} if ready is None else {"ready": ready}}],
    }
    return codec_of(ENDPOINT_SLICES).decode_object(encode(obj))


def test_the_own_configuration_leads_to_the_address():
    (webhook,) = own_configuration("fd00::1", 9443, CA)["webhooks"]
    assert webhook["clientConfig"] == {"url": "https://[fd00::1]:9443/validate", "caBundle": CA_TEXT}
    assert webhook["failurePolicy"] == "Ignore", "a cluster without a running balancer must stay usable"


def test_another_address_or_ca_has_to_be_registered_again():
    stored = codec_of(WEBHOOK_CONFIGURATIONS).decode_object(encode(own_configuration("10.0.0.1", 1, CA)))
    assert is_registered(stored, own_configuration("10.0.0.1", 1, CA))
    assert not is_registered(stored, own_configuration("10.0.0.2", 1, CA))
    assert not is_registered(stored, own_configuration("10.0.0.1", 1, b"other"))


def test_only_webhooks_of_adopted_services_get_the_ca():
    stored = configuration(METALLB, ("default", "mine"), OPENELB)
    assert ca_patch(stored, CA, [METALLB]) == [
        {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": CA_TEXT}
    ]
    assert [operation["path"][10] for operation in ca_patch(stored, CA, ADOPTED_SERVICES)] == ["0", "2"]
    assert ca_patch(stored, CA, []) == []
    assert ca_patch(configuration(METALLB, ca=CA_TEXT), CA, [METALLB]) == []
    assert ca_patch(configuration(METALLB, name="another"), CA, [METALLB]) == []  # RBAC does not let it


def test_the_conversion_of_a_definition_gets_the_ca():
    def definition(conversion: dict[str, object]) -> CustomResourceDefinition:
        return codec_of(DEFINITIONS).decode_object(encode({"spec": {"conversion": conversion}}))

    service = {"namespace": METALLB.namespace, "name": METALLB.name}
    webhook = definition({"strategy": "Webhook", "webhook": {"clientConfig": {"service": service}}})
    assert conversion_patch(webhook, CA, [METALLB]) == [
        {"op": "add", "path": "/spec/conversion/webhook/clientConfig/caBundle", "value": CA_TEXT}
    ]
    assert conversion_patch(webhook, CA, []) == []
    assert conversion_patch(definition({"strategy": "None"}), CA, [METALLB]) == []


def test_a_ready_pod_of_the_manifest_answers_its_own_webhooks():
    assert not is_answered_by_others([slice_(NAME)], METALLB)
    assert not is_answered_by_others([slice_("metallb-webhook-service-x", ready=False)], METALLB)
    assert not is_answered_by_others([slice_("openelb-controller-x", service=OPENELB)], METALLB)
    assert is_answered_by_others([slice_("metallb-webhook-service-x")], METALLB)
    assert is_answered_by_others([slice_("metallb-webhook-service-x", ready=None)], METALLB)


def test_the_slice_of_an_adopted_service_has_its_ports_and_its_owner():
    service = {
        "metadata": {"namespace": "openelb-system", "name": "openelb-controller", "uid": "u"},
        "spec": {"ports": [{"name": "https-webhook", "port": 443}]},
    }
    made = adopting_slice(service, "10.244.1.7", 40001)
    assert made["metadata"]["namespace"] == "openelb-system"
    assert made["metadata"]["ownerReferences"][0]["uid"] == "u"
    assert made["ports"] == [{"name": "https-webhook", "port": 40001, "protocol": "TCP"}]
    assert made["addressType"] == "IPv4"
