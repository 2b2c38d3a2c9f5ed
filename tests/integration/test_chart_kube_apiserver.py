"""The chart's objects in kube-apiserver 1.20.2, which is older than what the parts need, and lacks policy/v1.

No kubelet and no controller runs: the test is about objects. It needs the program that `python -m
benchmarks.kube_apiserver` compiles, and is skipped without it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from benchmarks.kube_apiserver import KubeApiServer, why_missing

from tests.chart import CHART, require_helm
from tests.kubeconfigs import write_kubeconfig

from .apiserver_process import write_files

pytestmark = [
    pytest.mark.integration,
    pytest.mark.needs("kubectl"),
    pytest.mark.skipif(bool(why_missing()), reason=why_missing()),
]

VALUES = {
    "k8sServiceHost": "10.0.0.1",
    "proxy": {"enabled": True},
    "dns": {
        "enabled": True,
        "podDisruptionBudget": {"minAvailable": 1},
        "hpa": {"enabled": True},
        "prometheus": {"service": {"enabled": True}},
    },
    "controller": {"enabled": True},
    "speaker": {"enabled": True},
    "dashboards": {"enabled": True},
}
KINDS = (
    *("namespaces", "serviceaccounts", "configmaps", "services", "deployments", "daemonsets", "poddisruptionbudgets"),
    *("horizontalpodautoscalers", "clusterroles", "clusterrolebindings", "roles", "rolebindings"),
    "customresourcedefinitions",
)


class Cluster:
    """kube-apiserver with etcd, and a copy of the chart that does not ask for a later Kubernetes."""

    def __init__(self, directory: Path, server: KubeApiServer) -> None:
        self._directory = directory
        certificate = {"client-certificate": f"{directory}/admin.crt", "client-key": f"{directory}/admin.key"}
        url = f"https://127.0.0.1:{server.port}"
        self._kubeconfig = write_kubeconfig(directory / "kubeconfig", url, **certificate)
        self._chart = directory / "chart"
        shutil.copytree(CHART, self._chart)
        description = self._chart / "Chart.yaml"
        description.write_text(re.sub(r"^kubeVersion:.*\n", "", description.read_text(), flags=re.MULTILINE))

    def run(self, program: str, *arguments: str) -> str:
        home = {name: str(self._directory) for name in ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")}
        env = {**os.environ, **home, "KUBECONFIG": str(self._kubeconfig), "HOME": str(self._directory)}
        result = subprocess.run((program, *arguments), capture_output=True, text=True, timeout=100, env=env)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def helm(self, verb: str, *arguments: str) -> str:
        return self.run(require_helm(), verb, "bridgehead", *arguments, "--namespace", "kube-system")

    def apply(self, verb: str, **changes: object) -> None:
        """Install or upgrade the release."""
        values = self._directory / "values.yaml"
        values.write_text(yaml.safe_dump({**VALUES, **changes}))
        # It drops rules in CEL (x-kubernetes-validations), but its schema and its server-side apply refuse them.
        flags = ("--wait=hookOnly", "--server-side=false", "--disable-openapi-validation")
        self.helm(verb, str(self._chart), "--values", str(values), *flags)

    def objects(self) -> dict[str, str]:
        """Return the versions of the objects of kinds that a release has, by kind, namespace and name."""
        found = json.loads(self.run("kubectl", "get", "-A", "-o", "json", ",".join(KINDS)))["items"]
        return {
            f"{one['kind']} {one['metadata'].get('namespace', '')}/{one['metadata']['name']}": one["apiVersion"]
            for one in found
            if "deletionTimestamp" not in one["metadata"]
        }


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    write_files(tmp_path)
    with closing(KubeApiServer(tmp_path)) as server:
        server.start()
        yield Cluster(tmp_path, server)


def test_install_upgrade_rollback_and_uninstall(cluster: Cluster) -> None:
    before = cluster.objects()
    cluster.apply("install")
    installed = cluster.objects()
    assert installed["PodDisruptionBudget kube-system/bridgehead-dns"] == "policy/v1beta1"
    assert "HorizontalPodAutoscaler kube-system/bridgehead-dns" in installed
    new = {name.partition(" ")[0] for name in installed.keys() - before.keys()}
    assert {"DaemonSet", "Deployment", "CustomResourceDefinition", "RoleBinding", "ConfigMap", "Namespace"} <= new
    cluster.apply("upgrade", dns={"enabled": False})
    upgraded = cluster.objects()
    assert {name for name in installed.keys() - upgraded.keys() if "bridgehead-dns" not in name} == {
        "ConfigMap kube-system/bridgehead-dashboard-dns"
    }
    cluster.helm("rollback", "1", "--wait=hookOnly")
    assert cluster.objects() == installed
    cluster.helm("uninstall", "--no-hooks")  # nothing here would run the Job
    left = cluster.objects().keys() - before.keys()
    assert {name for name in left if not name.startswith("CustomResourceDefinition ")} == {"Namespace /metallb-system"}
