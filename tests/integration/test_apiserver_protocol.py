"""The protocol with real clients: protobuf, gzip, pages, flow control. kubectl since 1.32 asks for protobuf."""

from __future__ import annotations

import gzip
import json
import subprocess
import urllib.error
import urllib.request
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from bridgehead.apiserver.bodies.definitions import LazyDefinitions
from bridgehead.apiserver.bodies.protobuf import decode_envelope_untrusted, decode_message_untrusted, plain_scalars
from bridgehead.apiserver.bodies.protobuf.decoding import split_untrusted
from bridgehead.apiserver.bodies.schema import Schema

from .apiserver_process import DEADLINE, DEPLOYMENT, ServerProcess

pytestmark = [pytest.mark.integration, pytest.mark.needs("kubectl")]

PROTOBUF = "application/vnd.kubernetes.protobuf"
CONFIG_MAPS = "/api/v1/namespaces/pages/configmaps"
MANIFESTS = f"""{DEPLOYMENT}
---
apiVersion: v1
kind: Service
metadata: {{name: web}}
spec: {{type: NodePort, selector: {{app: web}}, ports: [{{name: http, port: 80, targetPort: http, nodePort: 30080}}]}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {{name: web}}
spec:
  rules:
  - host: web.example
    http: {{paths: [{{path: /shop, pathType: Prefix, backend: {{service: {{name: web, port: {{name: http}}}}}}}}]}}
---
apiVersion: v1
kind: Secret
metadata: {{name: s}}
data: {{token: AP8=}}
"""


def fetch(server: ServerProcess, path: str, *, user: str = "admin", **headers: str) -> Any:
    request = urllib.request.Request(
        server.url + path, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )
    return urllib.request.urlopen(request, context=server.context(user), timeout=DEADLINE)


def run(server: ServerProcess, *arguments: str, stdin: str = "") -> str:
    result: subprocess.CompletedProcess[str] = server.kubectl(*arguments, stdin=stdin)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_kubectl_describes_what_it_reads_in_protobuf(server):
    run(server, "create", "-f", "-", stdin=MANIFESTS)
    lines = [" ".join(line.split()) for line in run(server, "describe", "deploy,svc,ingress,secret").splitlines()]
    for expected in (
        "Replicas: 3 desired | 0 updated | 0 total | 0 available | 0 unavailable",
        "StrategyType: RollingUpdate",
        "NodePort: http 30080/TCP",
        "TargetPort: http/TCP",
        "token: 2 bytes",
    ):
        assert expected in lines
    assert any(line.startswith("/shop web:http") for line in lines)
    described = run(server, "describe", "flowschema", "probes")
    assert "Matching Precedence:" in described


def test_a_watch_in_protobuf_over_tls(server):
    schema = Schema(LazyDefinitions(), plain_scalars)
    path = "/api/v1/namespaces?watch=true&allowWatchBookmarks=true&sendInitialEvents=true"
    with fetch(server, f"{path}&resourceVersionMatch=NotOlderThan", accept=f"{PROTOBUF},application/json") as answer:
        assert answer.headers["content-type"] == f"{PROTOBUF};stream=watch"
        names, kind = set(), ""
        while kind != "BOOKMARK":
            frame = answer.read(int.from_bytes(answer.read(4), "big"))
            parts: dict[int, Any] = dict(split_untrusted(memoryview(frame)))
            kind = parts[1].decode()
            embedded: dict[int, Any] = dict(split_untrusted(memoryview(parts[2])))
            version, name, raw = decode_envelope_untrusted(embedded[1])
            assert (version, name) == ("v1", "Namespace")
            obj = decode_message_untrusted(raw, schema.of_kind("", "v1", "Namespace"))
            names.add(obj["metadata"].get("name"))
    assert names >= {"default", "kube-system", None}
    assert obj["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_pages_and_gzip(server, api):
    run(server, "create", "namespace", "pages")
    core: Any = client.CoreV1Api(api)
    for number in range(25):
        data = {"k": f"{number}" * 8000}
        core.create_namespaced_config_map("pages", {"metadata": {"name": f"c{number:02}"}, "data": data})
    first = core.list_namespaced_config_map("pages", limit=10)
    assert first.metadata.remaining_item_count == 15
    core.delete_namespaced_config_map("c15", "pages")
    seen, token = [item.metadata.name for item in first.items], first.metadata._continue
    while token:
        page = core.list_namespaced_config_map("pages", limit=10, _continue=token)
        assert page.metadata.resource_version == first.metadata.resource_version
        seen += [item.metadata.name for item in page.items]
        token = page.metadata._continue
    assert seen == [f"c{number:02}" for number in range(25)]
    with pytest.raises(ApiException) as caught:
        core.list_namespaced_config_map("pages", resource_version_match="Exact")
    assert caught.value.status == 422
    assert len(run(server, "get", "configmaps", "-n", "pages", "--chunk-size=7", "-o", "name").split()) == 24

    with fetch(server, CONFIG_MAPS, accept_encoding="gzip") as answer:
        assert answer.headers["content-encoding"] == "gzip"
        assert len(json.loads(gzip.decompress(answer.read()))["items"]) == 24
    with fetch(server, f"{CONFIG_MAPS}?limit=1", accept_encoding="gzip") as answer:
        assert answer.headers["content-encoding"] is None


def test_answers_name_the_flow_schema_that_kubectl_shows(server):
    run(server, "wait", "--for=condition=Dangling=false", "flowschemas", "--all", f"--timeout={DEADLINE:.0f}s")
    for user, schema in (("admin", "exempt"), ("node1", "system-nodes")):
        uid = run(server, "get", "flowschema", schema, "-o", "jsonpath={.metadata.uid}")
        with fetch(server, "/version", user=user) as answer:
            assert answer.headers["X-Kubernetes-PF-FlowSchema-UID"] == uid
    with pytest.raises(urllib.error.HTTPError) as caught:
        fetch(server, "/api/v1/nodes", user="")
    uid = run(server, "get", "prioritylevelconfiguration", "global-default", "-o", "jsonpath={.metadata.uid}")
    assert caught.value.headers["X-Kubernetes-PF-PriorityLevel-UID"] == uid
    caught.value.close()


def test_explain_has_the_values_of_enumerations(server):
    document = json.loads(run(server, "get", "--raw", "/openapi/v3/api/v1"))
    spec = document["components"]["schemas"]["io.k8s.api.core.v1.ServiceSpec"]["properties"]
    assert spec["type"]["enum"] == ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]
    assert "type <string>" in run(server, "explain", "service.spec.type")
