"""Admission webhooks with the real kubectl, and an API server process that calls a real HTTPS server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from .webhook_server import WebhookServer, allow, deny, patch, webhook_server_thread

pytestmark = [pytest.mark.integration, pytest.mark.needs("kubectl")]


@pytest.fixture(scope="module")
def hooks() -> Iterator[WebhookServer]:
    with webhook_server_thread() as hooks:
        yield hooks


@pytest.fixture(scope="module")
def k(server, hooks):
    """kubectl's output; a failure fails the test, `fails` expects one."""

    def run(*arguments: str, stdin: Any = None, fails: bool = False) -> str:
        text = stdin if isinstance(stdin, str) else "" if stdin is None else yaml.safe_dump(stdin)
        result = server.kubectl(*arguments, stdin=text)
        assert (result.returncode != 0) == fails, result.stderr
        return result.stderr if fails else result.stdout

    run("create", "serviceaccount", "default")
    return run


def configuration(kind: str, name: str, hooks: WebhookServer, **settings: Any) -> dict[str, Any]:
    hook = {
        "name": f"{name}.example.com",
        "clientConfig": hooks.client_config(f"/{name}"),
        "rules": [rule()],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **settings,
    }
    version = "admissionregistration.k8s.io/v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "webhooks": [hook]}


def test_kubectl_shows_denials_warnings_and_mutations(k, hooks):
    hooks.handlers["/deny"] = lambda review: (
        deny(review, message="not this one", code=403, reason="Forbidden")
        if (review["request"]["object"] or {}).get("data", {}).get("bad")
        else allow(review, warnings=["this is deprecated"])
    )
    hooks.handlers["/add"] = lambda review: patch(
        review, [{"op": "add", "path": "/metadata/labels", "value": {"added": "yes"}}]
    )
    for kind, name, settings in (
        ("ValidatingWebhookConfiguration", "deny", {}),
        ("MutatingWebhookConfiguration", "add", {"rules": [rule(operations=["CREATE"])]}),
    ):
        # `rules` is replaced as a whole, so kubectl finds a change unless the manifest has the default scope.
        for done in ("created", "unchanged"):
            applied = k("apply", "-f", "-", stdin=configuration(kind, name, hooks, **settings))
            assert applied == f"{kind.lower()}.admissionregistration.k8s.io/{name} {done}\n"
        header, row = k("get", kind.lower()).splitlines()
        assert (header.split(), row.split()[:2]) == (["NAME", "WEBHOOKS", "AGE"], [name, "1"])
    stored = json.loads(k("get", "mutatingwebhookconfigurations", "add", "-o", "json"))["webhooks"][0]
    defaults = {key: stored[key] for key in ("failurePolicy", "matchPolicy", "reinvocationPolicy", "timeoutSeconds")}
    assert defaults == {
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "reinvocationPolicy": "Never",
        "timeoutSeconds": 10,
    }
    assert (stored["rules"][0]["scope"], stored["namespaceSelector"], stored["objectSelector"]) == ("*", {}, {})
    assert k("create", "configmap", "bad", "--from-literal=bad=1", fails=True) == (
        'error: failed to create configmap: admission webhook "deny.example.com" denied the request: not this one\n'
    )
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bad"}, "data": {"bad": "1"}}
    assert k("apply", "-f", "-", stdin=manifest, fails=True) == (
        'Error from server (Forbidden): error when creating "STDIN": '
        'admission webhook "deny.example.com" denied the request: not this one\n'
    )
    k("create", "configmap", "good")
    assert k("get", "configmap", "good", "-o", "jsonpath={.metadata.labels}") == '{"added":"yes"}'
    # A change of the configuration counts at once.
    change = {"webhooks": [{"name": "deny.example.com", "rules": [rule(operations=["DELETE"])]}]}
    k("patch", "validatingwebhookconfiguration", "deny", "-p", json.dumps(change))
    k("create", "configmap", "bad", "--from-literal=bad=1")
    k("delete", "configmap", "bad")
    assert [body["request"]["operation"] for _, _, body in hooks.requests][-1] == "DELETE"
    # An injector of certificates owns the bundle, by server-side apply or by a patch.
    bundle = {"webhooks": [{"name": "deny.example.com", "clientConfig": {"caBundle": "Zm9yZWlnbg=="}}]}
    k("patch", "validatingwebhookconfiguration", "deny", "-p", json.dumps(bundle))
    assert "unable to parse bytes as PEM block" in k("delete", "configmap", "good", fails=True)
    k("delete", "validatingwebhookconfigurations,mutatingwebhookconfigurations", "--all")
    k("delete", "configmap", "good")


def test_kubectl_explains_and_refuses_configurations(k, hooks):
    assert "sideEffects" in k("explain", "validatingwebhookconfiguration.webhooks")
    lines = [" ".join(line.split()) for line in k("api-resources", "--categories=api-extensions").splitlines()]
    group = "admissionregistration.k8s.io/v1 false"
    assert f"mutatingwebhookconfigurations {group} MutatingWebhookConfiguration" in lines
    assert f"validatingwebhookconfigurations {group} ValidatingWebhookConfiguration" in lines
    wrong = configuration("ValidatingWebhookConfiguration", "wrong", hooks, sideEffects="Some")
    wrong["webhooks"][0]["name"] = "wrong"
    assert k("create", "-f", "-", stdin=wrong, fails=True).splitlines() == [
        'The ValidatingWebhookConfiguration "wrong" is invalid: ',
        '* webhooks[0].name: Invalid value: "wrong": should be a domain with at least three segments separated by dots',
        '* webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"',
    ]


def rule(**changes: Any) -> dict[str, Any]:
    plain = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "scope": "*"}
    return plain | changes
