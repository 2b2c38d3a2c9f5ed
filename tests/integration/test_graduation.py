"""A cluster passes from this project's API server to kube-apiserver and back, on one etcd.

kube-apiserver is 1.20.2, so the kinds are those that it knows, stored in the versions that it knows.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from benchmarks.kube_apiserver import KubeApiServer, why_missing

from .apiserver_process import ServerProcess, write_files
from .etcd_server import EtcdCluster

DEADLINE = 100.0

MANIFEST = """
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: shop, labels: {app: web}}
data: {color: blue}
---
apiVersion: v1
kind: Secret
metadata: {name: password, namespace: shop}
stringData: {word: hidden}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: web, namespace: shop}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec:
  type: NodePort
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
---
apiVersion: v1
kind: Endpoints
metadata: {name: web, namespace: shop}
subsets: [{addresses: [{ip: 10.244.1.2}], ports: [{port: 8080}]}]
---
apiVersion: v1
kind: Node
metadata: {name: node1}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec:
  serviceAccountName: web
  containers: [{name: web, image: nginx, resources: {requests: {cpu: 100m, memory: 64Mi}}}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx}]}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: leader, namespace: shop}
spec: {holderIdentity: me, leaseDurationSeconds: 15, renewTime: "2026-01-01T00:00:00.000000Z"}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
endpoints: [{addresses: [10.244.1.2], nodeName: node1, conditions: {ready: true}}]
ports: [{port: 8080, protocol: TCP}]
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly, namespace: shop}
spec:
  schedule: "0 3 * * *"
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: busybox}]}}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: shop}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: shop}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, maxReplicas: 3}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web, namespace: shop}
spec: {defaultBackend: {service: {name: web, port: {number: 80}}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: shop}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}
"""
WIDGET = """
apiVersion: example.com/v1
kind: Widget
metadata: {name: small, namespace: shop}
spec: {size: 3}
"""
KINDS = (
    "namespaces,configmaps,secrets,serviceaccounts,services,endpoints,nodes,pods,deployments.apps,"
    "endpointslices.discovery.k8s.io,cronjobs.batch,poddisruptionbudgets.policy,horizontalpodautoscalers.autoscaling,"
    "ingresses.networking.k8s.io,flowschemas.flowcontrol.apiserver.k8s.io,"
    "leases.coordination.k8s.io,roles.rbac.authorization.k8s.io,clusterroles.rbac.authorization.k8s.io,"
    "customresourcedefinitions.apiextensions.k8s.io,widgets.example.com,priorityclasses.scheduling.k8s.io"
)

pytestmark = pytest.mark.skipif(bool(why_missing()), reason=f"kube-apiserver: {why_missing()}")


@dataclass
class World:
    """One etcd, and the files with which a server of either kind is started on it."""

    directory: Path
    etcd: EtcdCluster

    @contextlib.contextmanager
    def ours(self, *media_type: str) -> Iterator[Server]:
        options: dict[str, object] = {"etcd-servers": self.etcd.client_urls[0], "storage-versions": "1.20"}
        if media_type:
            options["storage-media-type"] = media_type[0]
        server = ServerProcess(self.directory, store="", options=options)
        server.start()
        try:
            yield Server(server.url, self.directory)
        finally:
            server.close()

    @contextlib.contextmanager
    def kube_apiserver(self) -> Iterator[Server]:
        server = KubeApiServer(self.directory, self.etcd.client_urls[0])
        server.start()
        try:
            yield Server(f"https://127.0.0.1:{server.port}", self.directory)
        finally:
            server.close()


@dataclass
class Server:
    url: str
    directory: Path

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        here = self.directory
        access = [f"--certificate-authority={here}/ca.crt", f"--client-certificate={here}/admin.crt"]
        argv = ["kubectl", f"--server={self.url}", *access, f"--client-key={here}/admin.key", *arguments]
        environment = {**os.environ, "HOME": str(here)}
        result = subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=DEADLINE, env=environment)
        assert result.returncode == 0, f"{argv}: {result.stderr}"
        return result.stdout

    def objects(self) -> dict[tuple[str, str, str], dict[str, Any]]:
        listed = json.loads(self.kubectl("get", KINDS, "-A", "-o", "json"))["items"]
        return {(o["kind"], o["metadata"].get("namespace", ""), o["metadata"]["name"]): o for o in listed}

    def revision(self) -> str:
        version: str = json.loads(self.kubectl("get", "--raw", "/api/v1/namespaces"))["metadata"]["resourceVersion"]
        return version

    def changes_since(self, revision: str, path: str) -> list[tuple[str, str]]:
        """Return the changes of a resource that a watch from a revision begins with."""
        body = self.kubectl("get", "--raw", f"{path}?watch=1&resourceVersion={revision}&timeoutSeconds=1")
        events = [json.loads(line) for line in body.splitlines()]
        return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("graduation")
    write_files(directory)
    with EtcdCluster(directory).running() as etcd:
        yield World(directory, etcd)


# Objects that each server brings to its own state, or renews.
KEPT_BY_SERVERS = {"ClusterRole", "CustomResourceDefinition"}


def is_kept_by_servers(key: tuple[str, str, str]) -> bool:
    return key[0] in KEPT_BY_SERVERS or key[:2] == ("Lease", "kube-system")


def identity(obj: dict[str, Any]) -> tuple[str, str]:
    return obj["metadata"]["uid"], obj["metadata"]["resourceVersion"]


def test_w58_a_cluster_passes_to_kube_apiserver_and_back(world: World) -> None:
    with world.ours() as ours:
        ours.kubectl("apply", "-f", "-", stdin=MANIFEST)
        ours.kubectl("wait", "--for=condition=Established", "crd/widgets.example.com", "--timeout=60s")
        ours.kubectl("apply", "-f", "-", stdin=WIDGET)
        before = ours.objects()
        service = before["Service", "shop", "web"]["spec"]
        left = ours.revision()

    with world.kube_apiserver() as theirs:
        theirs.kubectl("wait", "--for=condition=Established", "crd/widgets.example.com", "--timeout=60s")
        found = theirs.objects()
        for key, obj in before.items():
            assert key in found, key
            if not is_kept_by_servers(key):
                assert identity(found[key]) == identity(obj), key
        assert found["Service", "shop", "web"]["spec"]["clusterIP"] == service["clusterIP"]
        assert found["Widget", "shop", "small"]["spec"] == {"size": 3}
        assert found["Secret", "shop", "password"]["data"] == before["Secret", "shop", "password"]["data"]
        # Its allocators know what is taken.
        port = str(service["ports"][0]["nodePort"])
        with pytest.raises(AssertionError, match="already allocated"):
            theirs.kubectl("create", "service", "nodeport", "thief", "-n", "shop", "--tcp=80", f"--node-port={port}")
        theirs.kubectl("create", "service", "nodeport", "theirs", "-n", "shop", "--tcp=80")
        theirs.kubectl("create", "configmap", "theirs", "-n", "shop", "--from-literal=a=b")
        theirs.kubectl("label", "configmap", "settings", "-n", "shop", "seen=yes")
        theirs.kubectl("delete", "secret", "password", "-n", "shop")
        theirs.kubectl("patch", "widget", "small", "-n", "shop", "--type=merge", "-p", '{"spec":{"size":4}}')
        found = theirs.objects()

    with world.ours() as ours:
        again = ours.objects()
        assert again.keys() >= found.keys()
        for key, obj in found.items():
            if not is_kept_by_servers(key):
                assert identity(again[key]) == identity(obj), key
        assert again["Widget", "shop", "small"]["spec"] == {"size": 4}
        assert ("Secret", "shop", "password") not in again
        assert [
            change
            for change in ours.changes_since(left, "/api/v1/namespaces/shop/configmaps")
            if change[1] in ("theirs", "settings")
        ] == [("ADDED", "theirs"), ("MODIFIED", "settings")]
        assert ("DELETED", "password") in ours.changes_since(left, "/api/v1/namespaces/shop/secrets")
        port = str(again["Service", "shop", "theirs"]["spec"]["ports"][0]["nodePort"])
        with pytest.raises(AssertionError, match="already allocated"):
            ours.kubectl("create", "service", "nodeport", "thief", "-n", "shop", "--tcp=80", f"--node-port={port}")
        ours.kubectl("delete", "service", "theirs", "-n", "shop")
        ours.kubectl("create", "service", "nodeport", "next", "-n", "shop", "--tcp=80", f"--node-port={port}")


def test_what_is_written_as_protobuf_passes_as_well(world: World) -> None:
    with world.ours("application/vnd.kubernetes.protobuf") as ours:
        ours.kubectl("apply", "-f", "-", stdin=MANIFEST.replace("shop", "second"))
        before = {key: obj for key, obj in ours.objects().items() if key[1] == "second"}
    with world.kube_apiserver() as theirs:
        found = theirs.objects()
    assert {key: identity(found[key]) for key in before} == {key: identity(obj) for key, obj in before.items()}
    for key in (("Pod", "second", "web"), ("Deployment", "second", "web"), ("Service", "second", "web")):
        assert found[key]["metadata"]["labels" if key[0] == "Pod" else "name"]
        assert found[key]["spec"].items() >= {"schedulerName": "default-scheduler"}.items() or key[0] != "Pod"
