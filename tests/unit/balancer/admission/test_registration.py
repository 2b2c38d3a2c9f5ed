"""The own webhook configuration, and the adoption of those of published manifests."""

from __future__ import annotations

import base64

import msgspec

from bridgehead.balancer.admission.ca_bundle import CA_NAME, with_ca
from bridgehead.balancer.admission.registration import (
    ADOPTED_SERVICES,
    NAME,
    adopting_slice,
    ca_patch,
    ca_removal,
    conversion_patch,
    conversion_removal,
    is_answered_by_others,
    is_registered,
    leads_to,
    own_configuration,
    unanswered,
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
from bridgehead.tls_certificates import issue_certificate

CA = issue_certificate(["192.0.2.1"], name="a", ca_name=CA_NAME)[0]
CA_TEXT = base64.b64encode(CA).decode()
OTHERS_TEXT = base64.b64encode(b"-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----").decode()
METALLB, _, OPENELB, _ = ADOPTED_SERVICES


def configuration(
    *services: tuple[str, str], ca: str = "", name: str = "metallb-webhook-configuration", policy: str = "Fail"
) -> ValidatingWebhookConfiguration:
    webhooks = [
        {
            "name": "w",
            "clientConfig": {"service": {"namespace": namespace, "name": service}, "caBundle": ca},
            "failurePolicy": policy,
        }
        for namespace, service in services
    ]
    obj = {"metadata": {"name": name, "resourceVersion": "7"}, "webhooks": webhooks}
    return codec_of(WEBHOOK_CONFIGURATIONS).decode_object(encode(obj))


def encode(obj: object) -> bytes:
    return msgspec.json.encode(obj)


def slice_(name: str, ready: bool | None = True, service: ObjectKey = METALLB, pod: str = ""):
    obj = {
        "metadata": {
            "name": name,
            "namespace": service.namespace,
            "labels": {
                "kubernetes.io/service-name": service.name,
                "endpointslice.kubernetes.io/managed-by": NAME if name == NAME else "endpointslice-controller.k8s.io",
            },
        },
        "endpoints": [
            {
                "addresses": ["10.244.1.2"],
                "conditions": {} if ready is None else {"ready": ready},
                "targetRef": {"kind": "Pod", "uid": pod},
            }
        ],
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


VERSION = {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"}  # a conflict, if it is another one


def test_only_webhooks_of_adopted_services_get_the_ca():
    stored = configuration(METALLB, ("default", "mine"), OPENELB)
    assert ca_patch(stored, CA, [METALLB]) == [
        VERSION,
        {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": CA_TEXT},
    ]
    assert [operation["path"][10] for operation in ca_patch(stored, CA, ADOPTED_SERVICES)[1:]] == ["0", "2"]
    assert ca_patch(stored, CA, []) == []
    assert ca_patch(configuration(METALLB, ca=CA_TEXT), CA, [METALLB]) == []
    assert ca_patch(configuration(METALLB, name="another"), CA, [METALLB]) == []  # RBAC does not let it


def test_the_ca_is_beside_that_of_others_and_goes_alone():
    """kube-webhook-certgen writes its CA once: it must be there again when the balancer has gone."""
    (_, added) = ca_patch(configuration(METALLB, ca=OTHERS_TEXT), CA, [METALLB])
    both = added["value"]
    assert both == with_ca(OTHERS_TEXT, CA)
    removed = [VERSION, {"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": OTHERS_TEXT}]
    for patch in (
        ca_patch(configuration(METALLB, ca=both), CA, []),
        ca_removal(configuration(METALLB, ca=both), CA),
        ca_removal(configuration(METALLB, ca=both), None),
    ):
        (version, removal) = patch
        assert version == VERSION
        assert base64.b64decode(removal["value"]).strip() == base64.b64decode(removed[1]["value"]).strip()


def test_the_ca_goes_when_the_service_is_not_adopted_any_more():
    removal = [VERSION, {"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]
    ours = configuration(METALLB, ca=CA_TEXT)
    assert ca_patch(ours, CA, []) == ca_removal(ours, CA) == ca_removal(ours, None) == removal
    assert ca_removal(configuration(METALLB, ca=OTHERS_TEXT), None) == []
    another, _, _ = issue_certificate(["192.0.2.1"], name="a", ca_name=CA_NAME)
    assert ca_removal(ours, another) == [], "another balancer answers by now"
    assert ca_removal(configuration(METALLB, ca=CA_TEXT, name="another"), None) == []


def test_the_conversion_of_a_definition_gets_the_ca():
    def definition(conversion: dict[str, object]) -> CustomResourceDefinition:
        stored = {"metadata": {"resourceVersion": "7"}, "spec": {"conversion": conversion}}
        return codec_of(DEFINITIONS).decode_object(encode(stored))

    service = {"namespace": METALLB.namespace, "name": METALLB.name}
    path = "/spec/conversion/webhook/clientConfig/caBundle"
    webhook = definition({"strategy": "Webhook", "webhook": {"clientConfig": {"service": service}}})
    assert conversion_patch(webhook, CA, [METALLB]) == [VERSION, {"op": "add", "path": path, "value": CA_TEXT}]
    assert conversion_patch(webhook, CA, []) == []
    assert conversion_patch(definition({"strategy": "None"}), CA, [METALLB]) == []
    ours = definition({"strategy": "Webhook", "webhook": {"clientConfig": {"service": service, "caBundle": CA_TEXT}}})
    removal = [VERSION, {"op": "remove", "path": path}]
    assert conversion_patch(ours, CA, []) == conversion_removal(ours, CA) == conversion_removal(ours, None) == removal
    assert conversion_removal(definition({"strategy": "None"}), None) == []


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


def test_a_slice_leads_to_one_address_and_port():
    made = adopting_slice(
        {"metadata": {"namespace": "a", "name": "b", "uid": "u"}, "spec": {"ports": [{"port": 443}, {"port": 444}]}},
        "10.244.1.7",
        40001,
    )
    stored = codec_of(ENDPOINT_SLICES).decode_object(encode(made))
    assert leads_to(stored, "10.244.1.7", 40001)
    assert not leads_to(stored, "10.244.1.8", 40001)
    assert not leads_to(stored, "10.244.1.7", 40002)


def test_webhooks_that_nobody_answers_block_every_change():
    name = "metallb-webhook-configuration"
    blocked = {name: METALLB}
    assert unanswered([configuration(METALLB)], []) == blocked
    assert unanswered([configuration(METALLB)], [slice_("x", ready=False), slice_("y", service=OPENELB)]) == blocked
    assert unanswered([configuration(METALLB)], [slice_("x")]) == {}
    assert unanswered([configuration(METALLB)], [slice_(NAME)]) == {}, "this process answers"
    assert unanswered([configuration(METALLB, policy="Ignore")], []) == {}
    assert unanswered([configuration(("default", "mine"))], []) == {}
    # This process may not change a configuration of another name, and has no certificate for other namespaces.
    assert unanswered([configuration(METALLB, name="a")], [slice_(NAME)]) == {"a": METALLB}
    elsewhere = ObjectKey("default", METALLB.name)
    assert unanswered([configuration(elsewhere)], []) == {name: elsewhere}


def test_stand_ins_pass_the_calls_on():
    of_stand_in = slice_("x", pod="uid")
    assert not is_answered_by_others([of_stand_in], METALLB, {"uid"})
    assert is_answered_by_others([of_stand_in], METALLB)
    # Without this process behind it, a stand-in answers nothing.
    assert unanswered([configuration(METALLB)], [of_stand_in], {"uid"}) == {"metallb-webhook-configuration": METALLB}
    assert unanswered([configuration(METALLB)], [of_stand_in, slice_(NAME)], {"uid"}) == {}
