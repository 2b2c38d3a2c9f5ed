"""CustomResourceDefinitions with real clients: kubectl, the `kubernetes` client, and an operator made with kopf."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client, dynamic, watch
from kubernetes.client.exceptions import ApiException

from .apiserver_process import DEADLINE, ServerProcess
from .webhook_server import respond, webhook_server_thread

pytestmark = [pytest.mark.integration, pytest.mark.needs("kubectl")]

# An add-on's manifest: a definition, an instance, and what runs it.
MANIFEST = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: pools.metal.example.com
  labels: {app: metal}
  annotations: {controller-gen.kubebuilder.io/version: v0.16.3}
spec:
  group: metal.example.com
  names: {kind: Pool, listKind: PoolList, plural: pools, singular: pool, shortNames: [mp], categories: [all]}
  scope: Namespaced
  versions:
  - name: v1beta1
    served: true
    storage: true
    additionalPrinterColumns:
    - {name: Auto Assign, type: boolean, jsonPath: .spec.autoAssign}
    - {name: Addresses, type: string, jsonPath: .spec.addresses}
    - {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status', priority: 1}
    schema:
      openAPIV3Schema:
        description: Pool is a pool of addresses.
        type: object
        required: [spec]
        properties:
          apiVersion: {type: string}
          kind: {type: string}
          metadata: {type: object}
          spec:
            type: object
            required: [addresses]
            properties:
              addresses:
                description: Addresses that may be given out.
                type: array
                minItems: 1
                items: {type: string, pattern: '^[0-9./-]+$'}
              autoAssign: {type: boolean, default: true}
              mode: {type: string, enum: [layer2, bgp], default: layer2}
              replicas: {type: integer, format: int32, minimum: 0}
          status:
            type: object
            properties:
              replicas: {type: integer, format: int32}
              selector: {type: string}
              conditions:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [type]
                items:
                  type: object
                  required: [type, status]
                  properties: {type: {type: string}, status: {type: string}}
    subresources:
      status: {}
      scale:
        specReplicasPath: .spec.replicas
        statusReplicasPath: .status.replicas
        labelSelectorPath: .status.selector
---
apiVersion: v1
kind: Namespace
metadata: {name: metal-system}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: controller, namespace: metal-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: metal-controller}
rules:
- {apiGroups: [metal.example.com], resources: [pools, pools/status], verbs: [get, list, watch, update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: metal-controller}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: metal-controller}
subjects: [{kind: ServiceAccount, name: controller, namespace: metal-system}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: metal-webhook}
webhooks:
- name: pools.metal.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Ignore
  clientConfig: {service: {name: webhook, namespace: metal-system, path: /validate}}
  rules:
  - {apiGroups: [metal.example.com], apiVersions: [v1beta1], operations: [CREATE], resources: [pools], scope: '*'}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: controller, namespace: metal-system, labels: {app: metal}}
spec:
  selector: {matchLabels: {app: metal}}
  template:
    metadata: {labels: {app: metal}}
    spec: {containers: [{name: controller, image: example.com/metal:v1}]}
"""
POOL = """
apiVersion: metal.example.com/v1beta1
kind: Pool
metadata: {name: first}
spec: {addresses: [192.0.2.0/24], replicas: 1}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("apiserver")
    with ServerProcess(directory, f"sqlite://{directory}/state.db").running() as server:
        yield server


def run(server: ServerProcess, *arguments: str, stdin: str = "") -> str:
    result = server.kubectl(*arguments, stdin=stdin)
    assert result.returncode == 0, result.stderr
    return result.stdout


def fail(server: ServerProcess, *arguments: str, stdin: str = "") -> str:
    result = server.kubectl(*arguments, stdin=stdin)
    assert result.returncode == 1, result.stdout
    return result.stderr


def rows(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_w39_an_add_on_with_kubectl(server):
    missing = fail(server, "apply", "-f", "-", stdin=POOL)
    assert 'no matches for kind "Pool" in version "metal.example.com/v1beta1"' in missing
    assert "ensure CRDs are installed first" in missing
    assert 'the server doesn\'t have a resource type "pools"' in fail(server, "get", "pools")
    assert "pools.metal.example.com created" in run(server, "apply", "-f", "-", stdin=MANIFEST)
    run(server, "wait", "--for=condition=Established", "crd/pools.metal.example.com", "--timeout=30s")
    again = run(server, "apply", "-f", "-", stdin=MANIFEST).splitlines()
    assert len(again) == 7
    assert [line for line in again if not line.endswith("unchanged")] == []
    header, *found = rows(run(server, "get", "crd"))
    assert header == "NAME CREATED AT"
    assert found[0].startswith("pools.metal.example.com 20")
    explained = run(server, "explain", "pool.spec.addresses")
    assert "Addresses that may be given out." in explained
    assert "FIELD: addresses <[]string>" in explained
    assert "addresses\t<[]string> -required-" in run(server, "explain", "mp.spec")
    assert "ENUM:\n    layer2\n    bgp\n" in run(server, "explain", "pool.spec.mode")

    assert run(server, "apply", "-f", "-", stdin=POOL) == "pool.metal.example.com/first created\n"
    assert run(server, "apply", "-f", "-", stdin=POOL) == "pool.metal.example.com/first unchanged\n"
    assert rows(run(server, "get", "mp")) == ["NAME AUTO ASSIGN ADDRESSES", 'first true ["192.0.2.0/24"]']
    assert "pool.metal.example.com/first" in run(server, "get", "all", "-o", "name")
    line = rows(run(server, "api-resources", "--api-group=metal.example.com", "--no-headers"))
    assert line == ["pools mp metal.example.com/v1beta1 true Pool"]
    assert "metal.example.com/v1beta1" in run(server, "api-versions")


def test_what_kubectl_changes(server):
    typo = POOL.replace("first", "typo").replace("addresses", "adresses")
    refused = fail(server, "create", "-f", "-", stdin=typo)
    assert 'unknown field "spec.adresses"' in refused
    lax = fail(server, "create", "--validate=ignore", "-f", "-", stdin=typo)
    assert "spec.addresses: Required value" in lax
    bad = fail(server, "apply", "-f", "-", stdin=POOL.replace("192.0.2.0/24", "abc"))
    assert "spec.addresses[0] in body should match '^[0-9./-]+$'" in bad
    bad_mode = fail(server, "patch", "pool", "first", "--type=merge", "-p", '{"spec":{"mode":"x"}}')
    assert 'spec.mode: Unsupported value: "x": supported values: "layer2", "bgp"' in bad_mode
    assert "scaled" in run(server, "scale", "pool/first", "--replicas=3")
    assert run(server, "get", "pool", "first", "-o", "jsonpath={.spec.replicas}") == "3"
    strategic = fail(server, "patch", "pool", "first", "-p", '{"spec":{"mode":"bgp"}}')
    assert "application/merge-patch+json" in strategic
    ready = '{"status":{"conditions":[{"type":"Ready","status":"True"}]}}'
    run(server, "patch", "pool", "first", "--subresource=status", "--type=merge", "-p", ready)
    run(server, "wait", "--for=condition=Ready", "pool/first", "--timeout=30s")
    assert "True" in rows(run(server, "get", "pool", "-o", "wide"))[1].split()
    assert "labeled" in run(server, "label", "pool", "first", "a=b")
    assert run(server, "get", "pools", "-l", "a=b", "-o", "name") == "pool.metal.example.com/first\n"
    changed = POOL.replace("192.0.2.0/24", "198.51.100.0/24")
    assert "-  - 192.0.2.0/24" in server.kubectl("diff", "-f", "-", stdin=changed).stdout
    run(server, "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=changed)
    described = run(server, "describe", "pool", "first")
    assert "Auto Assign:  true" in described
    assert "198.51.100.0/24" in described
    run(server, "replace", "-f", "-", stdin=run(server, "get", "pool", "first", "-o", "yaml"))


def test_custom_resources_survive_a_restart(server):
    server.stop(signal.SIGKILL)
    server.start()
    assert run(server, "get", "pools", "-o", "name") == "pool.metal.example.com/first\n"


def test_a_definition_is_deleted_with_its_instances(server):
    run(server, "delete", "crd", "pools.metal.example.com", "--timeout=60s")
    assert "not found" in fail(server, "get", "crd", "pools.metal.example.com")
    run(server, "apply", "-f", "-", stdin=MANIFEST)
    run(server, "wait", "--for=condition=Established", "crd/pools.metal.example.com", "--timeout=30s")
    assert server.kubectl("get", "pools").stderr.startswith("No resources found")


# --- a conversion webhook


def host_version(name: str, *fields: str, storage: bool) -> dict[str, Any]:
    properties = {field: {"type": "string"} for field in fields}
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
        "selectableFields": [{"jsonPath": f".{field}"} for field in fields],
    }


def convert(review: dict[str, Any]) -> dict[str, Any]:
    """Answer a ConversionReview: `hostPort` of v1 is `host` and `port` of v2."""
    request = review["request"]
    converted = []
    for obj in request["objects"]:
        if request["desiredAPIVersion"].endswith("/v2"):
            obj["host"], _, obj["port"] = obj.pop("hostPort").partition(":")
        else:
            obj["hostPort"] = f"{obj.pop('host')}:{obj.pop('port')}"
        converted.append({**obj, "apiVersion": request["desiredAPIVersion"]})
    return respond(review, convertedObjects=converted, result={"status": "Success"})


def test_a_webhook_converts_between_versions(server):
    with webhook_server_thread() as hooks:
        hooks.handlers["/convert"] = convert
        webhook = {"clientConfig": hooks.client_config("/convert"), "conversionReviewVersions": ["v1"]}
        versions = [
            host_version("v1", "hostPort", storage=True),
            host_version("v2", "host", "port", storage=False),
        ]
        crd = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "hosts.stable.example.com"},
            "spec": {
                "group": "stable.example.com",
                "scope": "Namespaced",
                "names": {"kind": "Host", "plural": "hosts"},
                "versions": versions,
                "conversion": {"strategy": "Webhook", "webhook": webhook},
            },
        }
        run(server, "apply", "-f", "-", stdin=json.dumps(crd))
        run(server, "wait", "--for=condition=Established", "crd/hosts.stable.example.com", "--timeout=30s")
        host = {"apiVersion": "stable.example.com/v2", "kind": "Host", "metadata": {"name": "a"}}
        run(server, "apply", "-f", "-", stdin=json.dumps({**host, "host": "h", "port": "80"}))
        assert run(server, "get", "hosts.v1.stable.example.com", "a", "-o", "jsonpath={.hostPort}") == "h:80"
        assert run(server, "get", "hosts", "a", "-o", "jsonpath={.host} {.port}") == "h 80"
        again = run(server, "apply", "-f", "-", stdin=json.dumps({**host, "host": "h", "port": "81"}))
        assert again == "host.stable.example.com/a configured\n"
        # The storage version changes, and the list has objects that are stored in both.
        versions[0]["storage"], versions[1]["storage"] = False, True
        run(server, "apply", "-f", "-", stdin=json.dumps(crd))
        run(server, "apply", "-f", "-", stdin=json.dumps({**host, "metadata": {"name": "b"}, "host": "i", "port": "1"}))
        path = "jsonpath={.items[*].hostPort}"
        assert run(server, "get", "hosts.v1.stable.example.com", "-o", path) == "h:81 i:1"
        selected = run(server, "get", "hosts", "--field-selector=host=i", "-o", "name")
        assert selected == "host.stable.example.com/b\n"
        assert all(target == "/convert?timeout=30s" for target, _, _ in hooks.requests)
    # Without its webhook, the storage version is served.
    run(server, "apply", "-f", "-", stdin=json.dumps({**host, "metadata": {"name": "c"}, "host": "i", "port": "1"}))
    gone = fail(server, "get", "hosts.v1.stable.example.com", "c")
    assert "conversion webhook for stable.example.com/v2, Kind=Host failed: Post" in gone
    assert "connect: connection refused" in gone
    run(server, "delete", "crd", "hosts.stable.example.com", "--timeout=60s")


# --- the `kubernetes` client


def definition(plural: str, kind: str) -> dict[str, Any]:
    crd: dict[str, Any] = yaml.safe_load(MANIFEST.partition("---")[0])
    crd["metadata"]["name"] = f"{plural}.metal.example.com"
    crd["spec"]["names"] = {"kind": kind, "plural": plural}
    return crd


@pytest.fixture(scope="module")
def lakes(server) -> str:
    run(server, "apply", "-f", "-", stdin=json.dumps(definition("lakes", "Lake")))
    run(server, "wait", "--for=condition=Established", "crd/lakes.metal.example.com", "--timeout=30s")
    return "lakes"


def test_the_typed_and_the_custom_objects_api(api, lakes):
    crd: Any = client.ApiextensionsV1Api(api).read_custom_resource_definition("lakes.metal.example.com")
    assert [c.type for c in crd.status.conditions if c.status == "True"] == ["NamesAccepted", "Established"]
    custom: Any = client.CustomObjectsApi(api)
    where = ("metal.example.com", "v1beta1", "default", lakes)
    lake = {"apiVersion": "metal.example.com/v1beta1", "kind": "Lake", "metadata": {"name": "a"}}
    with pytest.raises(ApiException) as caught:
        custom.create_namespaced_custom_object(*where, lake)
    assert (caught.value.status, "spec: Required value" in str(caught.value.body)) == (422, True)
    made = custom.create_namespaced_custom_object(*where, {**lake, "spec": {"addresses": ["192.0.2.1"]}})
    assert made["spec"]["autoAssign"] is True
    version = custom.list_namespaced_custom_object(*where)["metadata"]["resourceVersion"]
    patcher = threading.Thread(
        target=custom.patch_namespaced_custom_object, args=(*where, "a", {"spec": {"mode": "bgp"}})
    )
    patcher.start()
    events = watch.Watch().stream(
        custom.list_namespaced_custom_object, *where, resource_version=version, timeout_seconds=20
    )
    event = next(iter(events))
    events.close()
    patcher.join()
    assert (event["type"], event["object"]["spec"]["mode"]) == ("MODIFIED", "bgp")
    scaled = custom.patch_namespaced_custom_object_scale(*where, "a", {"spec": {"replicas": 4}})
    assert scaled["spec"]["replicas"] == 4
    status = custom.patch_namespaced_custom_object_status(*where, "a", {"status": {"replicas": 4}})
    assert status["status"] == {"replicas": 4}
    custom.delete_namespaced_custom_object(*where, "a")


def test_the_dynamic_client_with_server_side_apply(api, lakes):
    lakes_api = dynamic.DynamicClient(api).resources.get(api_version="metal.example.com/v1beta1", kind="Lake")
    body = {"apiVersion": "metal.example.com/v1beta1", "kind": "Lake", "metadata": {"name": "b"}}

    def apply(manager: str, **spec: Any) -> Any:
        return lakes_api.server_side_apply(
            body={**body, "spec": spec}, name="b", namespace="default", field_manager=manager
        )

    assert apply("one", addresses=["192.0.2.1"]).spec.mode == "layer2"
    assert apply("two", mode="bgp").spec.addresses == ["192.0.2.1"]
    with pytest.raises(ApiException) as caught:
        apply("three", mode="layer2")
    assert caught.value.status == 409
    assert '"two"' in json.loads(str(caught.value.body))["message"]
    assert [item.metadata.name for item in lakes_api.get(namespace="default").items] == ["b"]
    lakes_api.delete(name="b", namespace="default")


# --- an operator

OPERATOR = """
import kopf


@kopf.on.startup()
def configure(settings, **_):
    settings.posting.enabled = False
    settings.persistence.finalizer = "metal.example.com/finalizer"


@kopf.on.create("metal.example.com", "v1beta1", "lakes")
def create(spec, name, **_):
    return {"seen": len(spec["addresses"])}


@kopf.on.field("metal.example.com", "v1beta1", "lakes", field="spec.mode")
def mode(old, new, patch, **_):
    patch.status["replicas"] = 7 if new == "bgp" else 1


@kopf.on.delete("metal.example.com", "v1beta1", "lakes")
def delete(name, **_):
    open("deleted-" + name, "w").close()
"""


@pytest.fixture
def operator(server, lakes) -> Iterator[Path]:
    """An operator for lakes; its directory."""
    here = server.directory / "operator"
    here.mkdir()
    (here / "lakes_operator.py").write_text(OPERATOR)
    # kopf reads the version of its own distribution only.
    command = [sys.executable, "-m", "kopf", "run", "--standalone", "--all-namespaces", "lakes_operator.py"]
    with (here / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=here, env=server.environment(), stdout=log, stderr=log)
    try:
        yield here
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()


def test_an_operator_made_with_kopf(server, api, operator):
    crd = definition("lakes", "Lake")
    preserving = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"] = preserving
    run(server, "apply", "-f", "-", stdin=json.dumps(crd))
    custom: Any = client.CustomObjectsApi(api)
    where = ("metal.example.com", "v1beta1", "default", "lakes")
    lake = {"apiVersion": "metal.example.com/v1beta1", "kind": "Lake", "metadata": {"name": "k"}}
    custom.create_namespaced_custom_object(*where, {**lake, "spec": {"addresses": ["192.0.2.1", "192.0.2.2"]}})

    def wait(what: Any) -> Any:
        deadline = time.monotonic() + DEADLINE
        while True:
            found = what()
            if found:
                return found
            assert time.monotonic() < deadline, (operator / "log").read_text()
            time.sleep(0.05)

    def get() -> Any:
        return custom.get_namespaced_custom_object(*where, "k")

    wait(lambda: get().get("status", {}).get("create") == {"seen": 2})
    assert get()["metadata"]["finalizers"] == ["metal.example.com/finalizer"]
    custom.patch_namespaced_custom_object(*where, "k", {"spec": {"mode": "bgp"}})
    wait(lambda: get()["status"].get("replicas") == 7)
    custom.delete_namespaced_custom_object(*where, "k")
    wait(lambda: not custom.list_namespaced_custom_object(*where)["items"])
    assert (operator / "deleted-k").exists()
