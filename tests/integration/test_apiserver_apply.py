"""Server-side apply with the real kubectl and the official Python client: their commands and outputs."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest

from .apiserver_process import DEPLOYMENT

pytestmark = [pytest.mark.integration, pytest.mark.needs("kubectl")]

CONFIG_MAP = """
apiVersion: v1
kind: ConfigMap
metadata: {name: cm}
data: {a: "1", b: "1"}
"""

ADVICE = """\
Please review the fields above--they currently have other managers. Here
are the ways you can resolve this warning:
* If you intend to manage all of these fields, please re-run the apply
  command with the `--force-conflicts` flag.
* If you do not intend to manage all of the fields, please edit your
  manifest to remove references to the fields that should keep their
  current managers.
* You may co-own fields by updating your manifest to match the existing
  value; in this case, you'll become the manager if the other manager(s)
  stop managing the field (remove it from their configuration).
See https://kubernetes.io/docs/reference/using-api/server-side-apply/#conflicts
"""


@pytest.fixture
def k(server, request):
    """`kubectl` in a namespace of the test's own: its output, or its errors if it `fails`."""
    namespace = request.node.name.replace("_", "-").lower()[:60]

    def run(*arguments: str, stdin: str = "", fails: bool = False) -> str:
        result = server.kubectl("-n", namespace, *arguments, stdin=stdin)
        assert (result.returncode != 0) == fails, result.stdout + result.stderr
        return result.stdout + result.stderr

    run("create", "namespace", namespace)
    return run


def managers(k, what: str) -> dict[str, Any]:
    entries = json.loads(k("get", what, "--show-managed-fields", "-o", "json"))["metadata"]["managedFields"]
    return {f"{entry['manager']} {entry['operation']}": entry["fieldsV1"] for entry in entries}


def ssa(k, stdin: str, *options: str, fails: bool = False) -> str:
    return k("apply", "--server-side", *options, "-f", "-", stdin=stdin, fails=fails)


def test_apply_and_remove(k):
    assert ssa(k, CONFIG_MAP) == "configmap/cm serverside-applied\n"
    assert ssa(k, CONFIG_MAP.replace(', b: "1"', "")) == "configmap/cm serverside-applied\n"
    assert k("get", "cm", "cm", "-o", "jsonpath={.data}") == '{"a":"1"}'
    assert managers(k, "cm/cm") == {"kubectl Apply": {"f:data": {"f:a": {}}}}
    assert "managedFields" not in k("get", "cm", "cm", "-o", "yaml")


def test_w40_conflicts(k):
    ssa(k, CONFIG_MAP)
    k("patch", "cm", "cm", "--type=merge", "--field-manager=other", "-p", '{"data":{"a":"2"}}')
    assert ssa(k, CONFIG_MAP, fails=True) == (
        f'error: Apply failed with 1 conflict: conflict with "other" using v1: .data.a\n{ADVICE}'
    )
    k("patch", "cm", "cm", "--type=merge", "--field-manager=other", "-p", '{"data":{"b":"2"}}')
    assert ssa(k, CONFIG_MAP, "--field-manager=third", fails=True) == (
        f'error: Apply failed with 2 conflicts: conflicts with "other" using v1:\n- .data.a\n- .data.b\n{ADVICE}'
    )
    assert ssa(k, CONFIG_MAP, "--force-conflicts") == "configmap/cm serverside-applied\n"
    assert managers(k, "cm/cm") == {"kubectl Apply": {"f:data": {"f:a": {}, "f:b": {}}}}


def test_w40_two_managers_share_a_deployment(k):
    ssa(k, DEPLOYMENT)
    sidecar = DEPLOYMENT.replace("replicas: 3", "paused: false")
    sidecar = sidecar.replace("name: web, image: nginx, ports: [{containerPort: 80}]", "name: side, image: envoy")
    assert ssa(k, sidecar, "--field-manager=mesh") == "deployment.apps/web serverside-applied\n"
    assert k("get", "deploy", "web", "-o", "jsonpath={..containers[*].name}") == "web side"
    k("scale", "deploy", "web", "--replicas=5")
    message = ssa(k, DEPLOYMENT, fails=True)
    assert 'conflict with "kubectl" with subresource "scale" using apps/v1: .spec.replicas' in message
    ssa(k, DEPLOYMENT.replace("  replicas: 3\n", ""))
    assert k("get", "deploy", "web", "-o", "jsonpath={.spec.replicas}") == "5"


def test_dry_run_and_diff(k):
    ssa(k, CONFIG_MAP)
    changed = CONFIG_MAP.replace('a: "1"', 'a: "2"')
    assert ssa(k, changed, "--dry-run=server") == "configmap/cm serverside-applied (server dry run)\n"
    assert k("get", "cm", "cm", "-o", "jsonpath={.data.a}") == "1"
    difference = k("diff", "--server-side", "-f", "-", stdin=changed, fails=True)
    assert '-  a: "1"\n+  a: "2"\n' in difference
    assert k("diff", "--server-side", "-f", "-", stdin=CONFIG_MAP) == ""


def test_client_side_apply_moves_to_server_side_apply(k):
    k("apply", "-f", "-", stdin=DEPLOYMENT)
    assert list(managers(k, "deploy/web")) == ["kubectl-client-side-apply Update"]
    changed = DEPLOYMENT.replace("nginx", "httpd").replace(", labels: {app: web}}\nspec", "}\nspec")
    assert ssa(k, changed) == "deployment.apps/web serverside-applied\n"
    found = managers(k, "deploy/web")
    assert sorted(found) == ["kubectl Apply", "kubectl-last-applied Apply"]
    assert '"image":"httpd"' in k("apply", "view-last-applied", "deploy", "web", "-o", "json").replace(" ", "")
    assert k("get", "deploy", "web", "-o", "jsonpath={..image} {.metadata.labels}") == "httpd "
    # The annotation follows, so that client-side apply works as before.
    assert k("apply", "-f", "-", stdin=DEPLOYMENT) == "deployment.apps/web configured\n"
    assert k("get", "deploy", "web", "-o", "jsonpath={..image} {.metadata.labels}") == 'nginx {"app":"web"}'


def test_errors(k):
    message = ssa(k, CONFIG_MAP.replace("\ndata:", "\ndate:"), fails=True)
    assert message.startswith("Error from server (BadRequest): failed to create typed patch object (")
    assert message.endswith("; /v1, Kind=ConfigMap): .date: field not declared in schema\n")


def test_python_client(k, server, request):
    from kubernetes import client, config, dynamic

    api = config.new_client_from_config(str(server.directory / "kubeconfig"))
    with contextlib.closing(api):
        namespace = request.node.name.replace("_", "-").lower()
        maps = dynamic.DynamicClient(api).resources.get(api_version="v1", kind="ConfigMap")
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"}, "data": {"a": "1"}}
        created = maps.server_side_apply(body, name="cm", namespace=namespace, field_manager="one")
        assert created.metadata.managedFields[0].manager == "one"
        body["data"] = {"a": "2"}
        with pytest.raises(dynamic.exceptions.ConflictError) as caught:
            maps.server_side_apply(body, name="cm", namespace=namespace, field_manager="two")
        assert json.loads(str(caught.value.body))["details"]["causes"][0]["field"] == ".data.a"
        forced = maps.server_side_apply(body, name="cm", namespace=namespace, field_manager="two", force_conflicts=True)
        assert [one.manager for one in forced.metadata.managedFields] == ["two"]
        core: Any = client.CoreV1Api(api)
        core.patch_namespaced_config_map("cm", namespace, {"data": {"b": "1"}})
        entries = core.read_namespaced_config_map("cm", namespace).metadata.managed_fields
        assert [(one.manager, one.operation) for one in entries] == [("two", "Apply"), ("OpenAPI-Generator", "Update")]
