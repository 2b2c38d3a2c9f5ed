"""The chart with Helm and kubectl: what it renders, refuses and creates, and its equality with the kustomize bases."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart import BASES, CHART, DEPLOY, Objects, identity, require_helm

from .apiserver_process import ServerProcess

pytestmark = [pytest.mark.integration, pytest.mark.needs("kubectl")]

ALL = (
    "k8sServiceHost=10.0.0.1",
    *(f"{part}.enabled=true" for part in ("proxy", "dns", "controller", "speaker")),
)
MONITORING = (
    *("prometheus.podMonitor.enabled=true", "prometheus.serviceMonitor.enabled=true", "dashboards.enabled=true"),
    *("prometheus.prometheusRule.enabled=true", "dns.prometheus.monitor.enabled=true"),
    "dns.prometheus.service.enabled=true",
    "proxy.config.metricsBindAddress=0.0.0.0:10249",
)
OTHERS = (
    *("dns.autoscaler.enabled=true", "dns.podDisruptionBudget.minAvailable=1", "dns.extraArgs={--log-queries}"),
    *("proxy.hostPorts=true", "proxy.config.mode=ipvs", "image.digest=sha256:" + "0" * 64, "loadBalancerClass=a/b"),
    *("speaker.ignoreExcludeLB=true", "prometheus.serviceAccount=p", "prometheus.namespace=monitoring"),
    *("imagePullSecrets[0].name=registry", "proxy.podAnnotations.a=b", "dns.labels.team=net"),
)
BESIDE_COREDNS = ("deployment.skipConfig=true", "k8sAppLabelOverride=kube-dns", "service.enabled=false")
GIVEN_ACCOUNT = ("serviceAccount.create=false", "serviceAccount.name=mine")
VALUES = {
    "monitoring": (*ALL, *MONITORING),
    "others": (*ALL, *OTHERS, "dns.hpa.enabled=true"),
    "what is there": (
        *("proxy.enabled=true", "proxy.existingConfigMap=kube-proxy", "dns.enabled=true", "rbac.create=false"),
        *(f"dns.{setting}" for setting in (*BESIDE_COREDNS, *GIVEN_ACCOUNT)),
        *(f"proxy.{setting}" for setting in GIVEN_ACCOUNT),
    ),
}
KINDS_OF_THE_OPERATOR = ("PodMonitor", "ServiceMonitor", "PrometheusRule")


def run_helm(verb: str, *arguments: object, settings: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    options = [option for setting in settings for option in ("--set", setting)]
    command = (require_helm(), verb, *map(str, arguments), *options)
    return subprocess.run(command, capture_output=True, text=True, timeout=100)


def render(*settings: str, options: tuple[str, ...] = ()) -> Objects:
    result = run_helm("template", "bridgehead", CHART, "--namespace", "kube-system", *options, settings=settings)
    assert result.returncode == 0, result.stderr
    return [document for document in yaml.safe_load_all(result.stdout) if document]


def by_identity(found: Objects) -> dict[tuple[str, str, str], dict[str, Any]]:
    named = {identity(obj): obj for obj in found}
    assert len(named) == len(found)
    return named


@pytest.mark.parametrize("name", VALUES)
def test_lint(name: str) -> None:
    result = run_helm("lint", "--strict", CHART, "--namespace", "kube-system", settings=VALUES[name])
    assert result.returncode == 0, result.stdout + result.stderr


def test_nothing_is_rendered_unless_asked() -> None:
    assert render() == []


def test_the_schema_refuses_wrong_values_and_names_them() -> None:
    wrong = {
        "proxi.enabled=true": "at '': additional properties 'proxi' not allowed",
        "dns.replicas=3": "at '/dns': additional properties 'replicas' not allowed",
        "proxy.enabled=yes": "at '/proxy/enabled': got string, want boolean",
        "proxy.config.mode=nft": "at '/proxy/config/mode': value must be one of '', 'nftables', 'iptables', 'ipvs'",
        "k8sServiceHost=https://a": "at '/k8sServiceHost': 'https://a' does not match",
        "image.digest=latest": "at '/image/digest': 'latest' does not match pattern",
        "controller.webhookMode=on": "at '/controller/webhookMode': value must be one of 'enabled', 'disabled'",
    }
    result = run_helm("template", "bridgehead", CHART, settings=tuple(wrong))
    assert result.returncode != 0
    assert [reason for reason in wrong.values() if reason not in result.stderr] == []


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("k8sServiceHost=", "k8sServiceHost: set the address of the API server"),
        ("dns.k8sAppLabelOverride=kube-dns", "the Service kube-dns selects pods in kube-system only"),
        ("dns.serviceAccount.create=false", "dns.serviceAccount.name: name the ServiceAccount to use"),
        ("ownNamespace=elsewhere", "ownNamespace: must not be the release's namespace elsewhere"),
        ("prometheus.podMonitor.enabled=true", "proxy.config.metricsBindAddress: set an address that Prometheus"),
        ("prometheus.serviceAccount=p", "prometheus.namespace: set the namespace of prometheus.serviceAccount"),
    ],
)
def test_refusals_name_the_value(setting: str, reason: str) -> None:
    result = run_helm("template", "bridgehead", CHART, "--namespace", "elsewhere", settings=(*ALL, setting))
    assert result.returncode != 0
    assert reason in result.stderr


# --- kustomize ------------------------------------------------------------------------------------------------------


def test_bases_are_what_the_chart_renders(tmp_path: Path) -> None:
    script = (sys.executable, str(DEPLOY.parent / "scripts/render-deploy"), "--check")
    result = subprocess.run(script, capture_output=True, text=True, timeout=100)
    assert result.returncode == 0, result.stderr


def test_all_bases_together_are_the_whole_chart(tmp_path: Path) -> None:
    (tmp_path / "deploy").symlink_to(DEPLOY)
    resources = [f"deploy/kustomize/{base}" for base in BASES]
    (tmp_path / "kustomization.yaml").write_text(json.dumps({"resources": resources}))
    command = ("kubectl", "kustomize", str(tmp_path), "--load-restrictor=LoadRestrictionsNone")
    result = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert result.returncode == 0, result.stderr
    settings = ("proxy.existingConfigMap=kube-proxy", *ALL[1:], *MONITORING[:4])
    options = ("--no-hooks", "--kube-version=1.33.0")
    found = by_identity([obj for obj in yaml.safe_load_all(result.stdout) if obj])
    assert found == by_identity(render(*settings, options=options))


# --- The API server -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster(server: ServerProcess) -> ServerProcess:
    """An API server with what the chart's objects need: namespaces, the operator's kinds, system:auth-delegator."""
    for name in ("kube-system", "bridgehead-system", "metallb-system"):
        server.kubectl("create", "namespace", name)
    applied = server.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": [
        _definition(kind) for kind in KINDS_OF_THE_OPERATOR
    ]}))  # fmt: skip
    assert applied.returncode == 0, applied.stderr
    names = [f"crd/{kind.lower()}s.monitoring.coreos.com" for kind in KINDS_OF_THE_OPERATOR]
    assert server.kubectl("wait", "--for=condition=Established", "--timeout=60s", *names).returncode == 0
    return server


def _definition(kind: str) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": kind, "plural": f"{kind.lower()}s"}
    spec = {"group": "monitoring.coreos.com", "scope": "Namespaced", "names": names, "versions": [version]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.monitoring.coreos.com"},
        "spec": spec,
    }


@pytest.mark.parametrize("name", VALUES)
def test_the_api_server_takes_every_object(cluster: ServerProcess, name: str) -> None:
    found = render(*VALUES[name])
    items = {"apiVersion": "v1", "kind": "List", "items": [obj for obj in found if obj["kind"] != "Namespace"]}
    result = cluster.kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", stdin=json.dumps(items))
    assert (result.returncode, result.stderr) == (0, "")
    assert len(result.stdout.splitlines()) == len(items["items"])
