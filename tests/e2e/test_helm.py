"""Helm against a lab: charts in the shape of well-known ones are installed, upgraded, rolled back and uninstalled.

The charts (charts/) have what the original ones ask of an API server: definitions in crds/ and as templates of a
subchart, Jobs of hooks that make and register certificates, webhooks, RBAC objects, lookups, tests, notes, and schemas
of values.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from bridgehead.balancer.definitions.install import load_definitions

from .conftest import Lab, Namespace, eventually
from .helm_release import WAIT, Release

BALANCER_KINDS = "ipaddresspools,l2advertisements"
CHARTS = Path(__file__).parent / "charts"


@pytest.fixture
def release(lab: Lab, ns: Namespace, tmp_path: Path, request: pytest.FixtureRequest) -> Release:
    """A release of the chart that the test's name begins with, which is also its name."""
    chart = request.node.originalname.removeprefix("test_").split("_of_")[0].replace("_", "-")
    return Release(lab, ns.name, chart, CHARTS / chart, tmp_path)


def test_coredns(release: Release) -> None:
    # As Helm 3: a three-way merge on the client's side, and polls instead of watches.
    release.install("--server-side=false", "--wait=legacy", "--timeout=100s")
    before = release.get("deployment", "coredns", ".spec.template.metadata.annotations")
    release.upgrade("zone=example.com", "replicaCount=2", "hpa.enabled=true")
    assert release.get("deployment", "coredns", ".spec.template.metadata.annotations") != before
    assert release.get("hpa", "coredns", ".spec.maxReplicas") == "2"
    assert "example.com:53" in release.get("configmap", "coredns", ".data.Corefile")
    release.rollback(1)
    assert release.get("deployment", "coredns", ".spec.template.metadata.annotations") == before
    assert release.get("hpa", "coredns", ".spec.maxReplicas") == ""
    assert "example.org:53" in release.get("configmap", "coredns", ".data.Corefile")
    assert release.history() == [(1, "superseded"), (2, "superseded"), (3, "deployed")]
    release.uninstall()


def test_coredns_of_an_upgrade_that_fails(release: Release) -> None:
    release.install()
    settings = ("--set", "zone=", "--set-json", 'replicaCount="many"')
    failed = release.try_helm("upgrade", release.name, str(release.chart), *settings, *WAIT, "--rollback-on-failure")
    assert failed.returncode != 0
    assert "replicas" in failed.stderr, failed.stderr
    assert "example.org:53" in release.get("configmap", "coredns", ".data.Corefile")
    assert [status for _, status in release.history()] == ["superseded", "failed", "deployed"]
    release.uninstall()


def test_cert_manager(release: Release) -> None:
    refused = release.try_helm("install", release.name, str(release.chart), "--set", "replicaCount=0", *WAIT)
    assert "minimum: got 0, want 1" in refused.stderr, refused.stderr
    try:
        notes = release.install()
        assert "cert-manager v1.18.0 has been deployed successfully!" in notes
        assert release.get("job", "cert-manager-startupapicheck", ".metadata.name") == "", "its hook has succeeded"
        certificate = (
            "apiVersion: charts.example.com/v1\nkind: Certificate\nmetadata: {name: web}\nspec: {secretName: web}"
        )
        applied = release.lab.kubectl("-n", release.namespace, "apply", "-f", "-", stdin=certificate)
        assert applied.returncode == 0, applied.stderr
        release.upgrade("replicaCount=2", "podDisruptionBudget.enabled=true")
        assert release.get("pdb", "cert-manager", ".spec.minAvailable") == "1"
        assert release.get("deployment", "cert-manager", ".status.readyReplicas") == "2"
        release.rollback(1)
        assert release.get("pdb", "cert-manager", ".spec.minAvailable") == ""
        release.uninstall()
        # The definition is kept, with its objects, and a new release takes it over.
        assert release.get("certificates", "web", ".spec.secretName") == "web"
        release.install()
        release.uninstall()
    finally:
        release.lab.kubectl("delete", "crd", "certificates.charts.example.com", "--ignore-not-found")


def test_ingress_nginx(release: Release) -> None:
    """The Jobs of its hooks make the certificate of its webhook, and let the API server trust it."""
    release.install()
    ingress = ("create", "ingress", "web", "--class=chart-nginx", "--rule=example.com/*=web:80")

    def is_denied() -> bool:
        result = release.lab.kubectl("-n", release.namespace, *ingress, "--dry-run=server")
        return 'admission webhook "validate.nginx.ingress.kubernetes.io" denied the request' in result.stderr

    eventually(is_denied)
    authority = release.get("secret", "ingress-nginx-admission", ".data.ca")
    path = ".webhooks[0].clientConfig.caBundle"
    assert release.get("validatingwebhookconfiguration", "ingress-nginx-admission", path) == authority
    release.upgrade("controller.config.use-gzip=yes", "controller.service.type=LoadBalancer")
    assert release.get("service", "ingress-nginx-controller", ".spec.type") == "LoadBalancer"
    assert release.get("configmap", "ingress-nginx-controller", ".data.use-gzip") == "yes"
    eventually(is_denied)
    release.rollback(1)
    assert release.get("service", "ingress-nginx-controller", ".spec.type") == "NodePort"
    assert release.get("configmap", "ingress-nginx-controller", ".data.use-gzip") == ""
    release.uninstall()


def test_prometheus(release: Release) -> None:
    try:
        assert "The password is new; 3 nodes." in release.install()
        password = release.get("secret", "prometheus-grafana", ".data.admin-password")
        assert len(base64.b64decode(password)) == 40
        assert release.get("csmon", "prometheus", ".spec.endpoints[0].interval") == "30s"
        assert json.loads(release.get("configmap", "prometheus-nodes", ".data.nodes\\.json"))["title"] == "Nodes"
        assert "Phase:          Succeeded" in release.helm("test", release.name, "--timeout", "100s")
        notes = release.upgrade("retention=20d", "second.enabled=true")
        assert "The password is as before; 3 nodes." in notes
        assert release.get("statefulset", "prometheus", ".spec.template.metadata.annotations.retention") == "20d"
        assert release.get("secret", "prometheus-grafana", ".data.admin-password") == password
        assert release.get("deployment", "prometheus-second", ".status.readyReplicas") == "1"
        release.rollback(1)
        assert release.get("statefulset", "prometheus", ".spec.template.metadata.annotations.retention") == "10d"
        assert release.get("deployment", "prometheus-second", ".metadata.name") == ""
        release.uninstall()
        assert release.get("crd", "servicemonitors.monitoring.charts.example.com", ".spec.scope") == "Namespaced"
    finally:
        release.lab.kubectl("delete", "crd", "servicemonitors.monitoring.charts.example.com", "--ignore-not-found")


@pytest.fixture
def metallb(lab: Lab, tmp_path: Path) -> Iterator[Release]:
    """MetalLB's chart with its definitions, whose texts are not those of the lab. The lab has its pools again later."""
    chart = tmp_path / "metallb"
    shutil.copytree(CHARTS / "metallb", chart)
    definitions = load_definitions("metallb.yaml")
    for definition in definitions:
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "as the chart has it"
    templates = chart / "charts/crds/templates"
    templates.mkdir()
    (templates / "crds.yaml").write_text(yaml.safe_dump_all(definitions))
    found = json.loads(lab.kubectl("-n", "metallb-system", "get", BALANCER_KINDS, "-o", "json").stdout)
    for obj in found["items"]:
        obj["metadata"] = {key: obj["metadata"][key] for key in ("name", "namespace")}
    saved = json.dumps(found)
    release = Release(lab, "metallb-system", "metallb", chart, tmp_path)
    names = [definition["metadata"]["name"] for definition in definitions]
    if not all(is_the_labs(lab, name) for name in names):  # another test has applied a manifest with kubectl
        lab.kubectl("delete", "crd", *names)
        eventually(lambda: all(is_the_labs(lab, name) for name in names))
    yield release
    release.try_helm("uninstall", release.name, *WAIT)
    eventually(lambda: lab.kubectl("apply", "-f", "-", stdin=saved).returncode == 0)


def test_w60_metallb_is_installed_and_uninstalled(metallb: Release, lab: Lab) -> None:
    """The lab's definitions become those of the release, and its pods are stand-ins beside the lab's balancer."""
    metallb.install("--create-namespace", *WAIT)
    description = ".spec.versions[0].schema.openAPIV3Schema.description"
    assert metallb.get("crd", "ipaddresspools.metallb.io", description) == "as the chart has it"
    pool = "apiVersion: metallb.io/v1beta1\nkind: IPAddressPool\nmetadata: {name: chart, namespace: metallb-system}\n"

    def create(addresses: str) -> subprocess.CompletedProcess[str]:
        text = f"{pool}spec: {{addresses: [{addresses}]}}"
        return lab.kubectl("create", "--dry-run=server", "-f", "-", stdin=text)

    eventually(lambda: create("10.77.0.0/24").returncode == 0)
    for _ in range(5):  # whichever endpoint of the webhook's Service is asked
        assert create("10.77.0.0/24").returncode == 0
        assert "denied the request" in create("10.96.0.0/24").stderr
    metallb.upgrade("controller.logLevel=debug")
    assert "--log-level=debug" in metallb.get(
        "deployment", "metallb-controller", ".spec.template.spec.containers[0].args"
    )
    metallb.rollback(1)
    assert "--log-level=info" in metallb.get(
        "deployment", "metallb-controller", ".spec.template.spec.containers[0].args"
    )
    metallb.uninstall()
    eventually(lambda: all(is_the_labs(lab, f"{kind}.metallb.io") for kind in ("communities", "servicel2statuses")))
    # Another release has to ask for the definitions.
    other = Release(lab, "metallb-system", "other", metallb.chart, metallb.chart.parent)
    refused = other.try_helm("install", other.name, str(other.chart), *WAIT)
    assert 'key "meta.helm.sh/release-name" must equal "other": current value is "metallb"' in refused.stderr
    other.install("--take-ownership", *WAIT)
    other.uninstall()


def is_the_labs(lab: Lab, definition: str) -> bool:
    """Whether the lab's balancer has made a definition, and no manager owns its fields."""
    found = lab.api.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{definition}")
    if not found or "bridgehead.io/installed-by" not in found["metadata"].get("annotations", {}):
        return False
    return not any("f:spec" in entry["fieldsV1"] for entry in found["metadata"]["managedFields"])
