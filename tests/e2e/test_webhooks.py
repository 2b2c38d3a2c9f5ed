"""An admission webhook in a pod, behind a Service: the API server reaches it without a service proxy."""

from __future__ import annotations

import base64
import contextlib
import json
from typing import Any

from tests.integration.webhook_server import certificates

from .conftest import Lab, Namespace, eventually

_SCRIPT = """
import base64, http.server, json, ssl

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        review = json.loads(self.rfile.read(int(self.headers["content-length"])))
        response = {"uid": review["request"]["uid"], "allowed": True}
        if "bad" in (review["request"]["object"].get("data") or {}):
            response |= {"allowed": False, "status": {"code": 403, "reason": "Forbidden", "message": "bad data"}}
        elif self.path.startswith("/mutate"):
            operations = json.dumps([{"op": "add", "path": "/data", "value": {"by": "webhook"}}]).encode()
            response |= {"patchType": "JSONPatch", "patch": base64.b64encode(operations).decode()}
        body = json.dumps({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

server = http.server.ThreadingHTTPServer(("", 8443), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/certificate/server.pem")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""


def objects(server: bytes) -> list[dict[str, Any]]:
    """Return the webhook's Secret, Deployment and Service."""
    labels = {"app": "hook"}
    container = {
        "name": "hook",
        "image": "busybox",
        "command": ["python3", "-c", _SCRIPT],
        "readinessProbe": {"tcpSocket": {"port": 8443}, "periodSeconds": 1},
        "volumeMounts": [{"name": "certificate", "mountPath": "/certificate"}],
    }
    volumes = [{"name": "certificate", "secret": {"secretName": "hook"}}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], "volumes": volumes}}
    deployment = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    service = {"selector": labels, "ports": [{"port": 443, "targetPort": 8443}]}
    return [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hook"}, "data": {"server.pem": encoded(server)}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "hook"}, "spec": deployment},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hook"}, "spec": service},
    ]


def configuration(kind: str, namespace: str, path: str, bundle: bytes) -> dict[str, Any]:
    """Return a configuration for the ConfigMaps of one namespace."""
    service = {"namespace": namespace, "name": "hook", "path": path}
    hook = {
        "name": "hook.example.com",
        "clientConfig": {"service": service, "caBundle": encoded(bundle)},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    version = "admissionregistration.k8s.io/v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": f"e2e-{namespace}"}, "webhooks": [hook]}


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_webhooks_in_pods_are_asked_through_their_service(lab: Lab, ns: Namespace) -> None:
    bundle, server = certificates("e2e", (f"hook.{ns.name}.svc",))
    ns.apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects(server)}))
    ns.rolled_out("deployment/hook")
    ns.wait_endpoints("hook", 2)
    made = [
        configuration("MutatingWebhookConfiguration", ns.name, "/mutate", bundle),
        configuration("ValidatingWebhookConfiguration", ns.name, "/validate", bundle),
    ]
    with contextlib.ExitStack() as stack:
        for one in made:
            ns.apply(json.dumps(one))
            stack.callback(ns.kubectl, "delete", one["kind"], one["metadata"]["name"])
        ns.kubectl("create", "configmap", "good")
        assert ns.get("configmaps", "good")["data"] == {"by": "webhook"}
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"bad": "x"}}
        assert 'admission webhook "hook.example.com" denied the request: bad data' in ns.refused(json.dumps(manifest))
        # Without a pod, the failure policy refuses the request.
        ns.kubectl("scale", "deployment", "hook", "--replicas=0")
        eventually(lambda: 'no endpoints available for service "hook"' in ns.refused(json.dumps(manifest)))
