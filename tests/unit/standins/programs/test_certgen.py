"""kube-webhook-certgen: the requests of its two commands, and their failures."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from cryptography import x509

from bridgehead.standins.programs import certgen
from bridgehead.standins.programs.cluster_access import AccessFailed
from bridgehead.standins.standin import Launch

SECRET = "/api/v1/namespaces/ingress/secrets/admission"
VALIDATING, MUTATING = (
    f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/admission"
    for kind in ("validating", "mutating")
)
WHERE = ("--secret-name=admission", "--namespace=ingress")


class Cluster:
    """Objects by path; what `ClusterAccess` asks for."""

    namespace = "own"

    def __init__(self, **objects: Any) -> None:
        self.objects: dict[str, Any] = dict(objects)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        if method == "POST":
            path = f"{path}/{body['metadata']['name']}"
        if method != "GET":
            self.objects[path] = body
        if path not in self.objects:
            raise AccessFailed(f"{path} not found", 404)
        return self.objects[path]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    cluster = Cluster()
    monkeypatch.setattr(certgen, "ClusterAccess", lambda environment: cluster)
    return cluster


def run(*arguments: str) -> int:
    return certgen.run(Launch(argv=("kube-webhook-certgen", *arguments), tag="v1.6.0", hostname="job"))


def configuration() -> dict[str, Any]:
    return {"webhooks": [{"clientConfig": {"service": {}}, "failurePolicy": "Ignore"}, {"clientConfig": {}}]}


def test_create_makes_a_certificate_for_the_hosts_once(cluster: Cluster) -> None:
    assert run("create", "--host=web,web.ingress.svc", *WHERE) == 0
    secret = cluster.objects[SECRET]
    ca, certificate = (
        x509.load_pem_x509_certificate(base64.b64decode(secret["data"][name])) for name in ("ca", "cert")
    )
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["web", "web.ingress.svc"]
    certificate.verify_directly_issued_by(ca)
    assert base64.b64decode(secret["data"]["key"]).startswith(b"-----BEGIN PRIVATE KEY-----")
    assert run("create", "--host=other", *WHERE) == 0
    assert cluster.objects[SECRET] is secret


def test_create_uses_other_names_and_the_own_namespace(cluster: Cluster) -> None:
    names = ("--ca-name=ca.crt", "--cert-name=tls.crt", "--key-name=tls.key")
    assert run("create", "--host=web", "--secret-name=admission", *names) == 0
    assert set(cluster.objects["/api/v1/namespaces/own/secrets/admission"]["data"]) == {"ca.crt", "tls.crt", "tls.key"}


def test_patch_writes_the_ca_and_the_policy(cluster: Cluster) -> None:
    cluster.objects = {SECRET: {"data": {"ca": "Q0E="}}, VALIDATING: configuration(), MUTATING: configuration()}
    options = ("--webhook-name=admission", "--patch-mutating=false", "--patch-failure-policy=Fail")
    assert run("patch", *WHERE, *options) == 0
    for webhook in cluster.objects[VALIDATING]["webhooks"]:
        assert (webhook["clientConfig"]["caBundle"], webhook["failurePolicy"]) == ("Q0E=", "Fail")
    assert cluster.objects[MUTATING] == configuration()


def test_patch_writes_the_ca_of_an_api_service(cluster: Cluster) -> None:
    path = "/apis/apiregistration.k8s.io/v1/apiservices/v1.metrics"
    cluster.objects = {SECRET: {"data": {"ca": "Q0E="}}, path: {"spec": {"insecureSkipTLSVerify": True}}}
    assert run("patch", *WHERE, "--apiservice-name=v1.metrics") == 0
    assert cluster.objects[path]["spec"] == {"caBundle": "Q0E="}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("create", *WHERE), 'required flag(s) "host" not set'),
        (("create", "--host=a"), 'required flag(s) "secret-name" not set'),
        (("patch", *WHERE), "at least one of --webhook-name and --apiservice-name is required"),
        (("patch", *WHERE, "--webhook-name=a", "--patch-failure-policy=No"), "patch-failure-policy No is not valid"),
        (("patch", *WHERE, "--webhook-name=a"), "no secret with 'admission' in 'ingress'"),
        (("version",), 'unknown command "version"'),
    ],
)
def test_failures(cluster: Cluster, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], error: str) -> None:
    assert run(*arguments) == 1
    assert error in capsys.readouterr().err


def test_a_secret_of_others_is_a_failure(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.objects = {SECRET: {"data": {}}}
    assert run("patch", *WHERE, "--webhook-name=admission") == 1
    assert "the Secret has no 'ca'" in capsys.readouterr().err
