"""The real kubectl with `bridgehead apiserver`: commands and their output."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from .apiserver_process import DEADLINE, DEPLOYMENT

pytestmark = [
    pytest.mark.integration,
    pytest.mark.needs("kubectl"),
]


@pytest.fixture
def namespace(request):
    """The name of the test's own namespace."""
    return request.node.name.replace("_", "-").replace("[", "-").rstrip("]").lower()[:60]


@pytest.fixture
def k(server, namespace):
    """`kubectl`'s output, in the test's namespace, which is created. A failure fails the test; `fails` expects one."""

    def run(*arguments: str, stdin: str = "", fails: bool = False) -> str:
        result = server.kubectl("-n", namespace, *arguments, stdin=stdin)
        assert (result.returncode != 0) == fails, result.stderr
        return result.stderr if fails else result.stdout

    run("create", "namespace", namespace)
    run("create", "serviceaccount", "default")
    return run


def test_kubectl_prints_the_version_and_the_resources(k):
    assert json.loads(k("version", "-o", "json"))["serverVersion"]["gitVersion"].startswith("v1.36.0+bridgehead")
    lines = [" ".join(line.split()) for line in k("api-resources", "--no-headers").splitlines()]
    assert "services svc v1 true Service" in lines
    assert "deployments deploy apps/v1 true Deployment" in lines
    assert "nodes no v1 false Node" in lines
    assert k("api-resources", "--api-group=apps", "-o", "name").split() == [
        "controllerrevisions.apps",
        "daemonsets.apps",
        "deployments.apps",
        "replicasets.apps",
        "statefulsets.apps",
    ]


def test_kubectl_creates_gets_and_deletes_objects(k):
    assert k("create", "-f", "-", stdin=DEPLOYMENT) == "deployment.apps/web created\n"
    assert "AlreadyExists" in k("create", "-f", "-", stdin=DEPLOYMENT, fails=True)
    header, row = k("get", "deploy").splitlines()
    assert header.split() == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]
    assert row.split()[:4] == ["web", "0/3", "0", "0"]
    assert k("get", "deploy", "-o", "name") == "deployment.apps/web\n"
    assert "app=web" in k("get", "deploy", "--show-labels")
    assert k("get", "deploy", "-l", "app=other", fails=False) == ""
    assert k("delete", "deploy", "web").startswith('deployment.apps "web" deleted')
    assert '(NotFound): deployments.apps "web" not found' in k("get", "deploy", "web", fails=True)


def test_kubectl_create_makes_each_kind(k):
    assert k("create", "deployment", "web", "--image=nginx", "--replicas=2") == "deployment.apps/web created\n"
    assert k("create", "service", "clusterip", "web", "--tcp=80:8080") == "service/web created\n"
    assert k("create", "service", "nodeport", "np", "--tcp=80") == "service/np created\n"
    assert k("create", "service", "externalname", "out", "--external-name=example.com") == "service/out created\n"
    assert k("create", "configmap", "cm", "--from-literal=a=b") == "configmap/cm created\n"
    assert k("create", "secret", "generic", "s", "--from-literal=a=b") == "secret/s created\n"
    assert k("run", "p", "--image=nginx", "--port=80", "--expose") == "service/p created\npod/p created\n"
    assert k("expose", "deployment", "web", "--name=e", "--port=80") == "service/e exposed\n"
    ports = json.loads(k("get", "svc", "web", "-o", "json"))["spec"]["ports"]
    assert ports == [{"name": "80-8080", "port": 80, "protocol": "TCP", "targetPort": 8080}]
    assert k("get", "secret", "s", "-o", "jsonpath={.data.a}") == "Yg=="
    assert len(k("create", "token", "default").split(".")) == 3


def test_kubectl_apply_and_diff(k):
    assert k("apply", "-f", "-", stdin=DEPLOYMENT) == "deployment.apps/web created\n"
    assert k("apply", "-f", "-", stdin=DEPLOYMENT) == "deployment.apps/web unchanged\n"
    changed = DEPLOYMENT.replace("replicas: 3", "replicas: 5").replace("nginx", "httpd")
    assert k("apply", "--dry-run=server", "-f", "-", stdin=changed).strip() == (
        "deployment.apps/web configured (server dry run)"
    )
    assert k("get", "deploy", "web", "-o", "jsonpath={.spec.replicas}") == "3"
    assert k("apply", "-f", "-", stdin=changed) == "deployment.apps/web configured\n"
    path = "{.spec.replicas} {.spec.template.spec.containers[*].image} {.metadata.generation}"
    assert k("get", "deploy", "web", "-o", f"jsonpath={path}") == "5 httpd 2"


def test_kubectl_changes_existing_objects(k):
    k("create", "-f", "-", stdin=DEPLOYMENT)
    assert k("scale", "deploy", "web", "--replicas=7") == "deployment.apps/web scaled\n"
    assert k("label", "deploy", "web", "tier=front") == "deployment.apps/web labeled\n"
    assert k("annotate", "deploy", "web", "note=x") == "deployment.apps/web annotated\n"
    assert k("set", "image", "deploy/web", "web=redis") == "deployment.apps/web image updated\n"
    assert k("rollout", "restart", "deploy/web") == "deployment.apps/web restarted\n"
    add = '{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"busybox"}]}}}}'
    assert k("patch", "deploy", "web", "-p", add) == "deployment.apps/web patched\n"
    assert k("patch", "deploy", "web", "--type=merge", "-p", '{"metadata":{"labels":{"tier":null}}}')
    replace = '[{"op":"replace","path":"/spec/replicas","value":1}]'
    assert k("patch", "deploy", "web", "--type=json", "-p", replace)
    deployment = json.loads(k("get", "deploy", "web", "-o", "json"))
    assert deployment["spec"]["replicas"] == 1
    assert deployment["metadata"]["labels"] == {"app": "web"}
    assert {c["name"]: c["image"] for c in deployment["spec"]["template"]["spec"]["containers"]} == {
        "web": "redis",
        "side": "busybox",
    }


def test_kubectl_edit(k, server, namespace):
    k("create", "configmap", "cm", "--from-literal=a=b")
    editor = server.directory / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/a: b/a: c/' \"$1\"\n")
    editor.chmod(0o755)
    environment = {**server.environment(), "EDITOR": str(editor)}
    result = subprocess.run(
        ["kubectl", "-n", namespace, "edit", "configmap", "cm"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=DEADLINE,
    )
    assert result.stdout == "configmap/cm edited\n", result.stderr
    assert k("get", "cm", "cm", "-o", "jsonpath={.data.a}") == "c"


def test_kubectl_shows_validation_errors(k):
    wrong = DEPLOYMENT.replace("replicas: 3", "replicas: 3\n  colour: red")
    assert 'strict decoding error: unknown field "spec.colour"' in k("create", "-f", "-", stdin=wrong, fails=True)
    assert k("create", "--validate=warn", "-f", "-", stdin=wrong) == "deployment.apps/web created\n"
    invalid = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {ports: [{port: 70000}]}\n"
    message = k("create", "-f", "-", stdin=invalid, fails=True)
    assert message.startswith('The Service "s" is invalid: ')
    assert "* spec.ports[0].port: Invalid value: 70000: must be between 1 and 65535, inclusive" in message
    unknown = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: t}\n"
    message = k("create", "-f", "-", stdin=unknown, fails=True)
    assert 'no matches for kind "Thing" in version "example.com/v1"' in message


def test_a_dry_run_stores_nothing(k):
    assert "pod/p created (server dry run)" in k("run", "p", "--image=nginx", "--dry-run=server")
    assert k("get", "pods") == ""


def test_kubectl_explain(k):
    text = k("explain", "service.spec.ports")
    assert "KIND:       Service" in text
    assert "nodePort\t<integer>" in text
    assert "GROUP:      apps" in k("explain", "deployment.spec.strategy")
    assert "clusterIP\t<string>" in k("explain", "service", "--recursive")


def test_kubectl_auth(k):
    who = json.loads(k("auth", "whoami", "-o", "json"))["status"]["userInfo"]
    (credential,) = who.pop("extra")["authentication.kubernetes.io/credential-id"]
    assert re.fullmatch("X509SHA256=[0-9a-f]{64}", credential)
    assert who == {"username": "kubernetes-admin", "groups": ["system:masters", "system:authenticated"]}
    assert k("auth", "can-i", "create", "pods") == "yes\n"
    assert k("auth", "can-i", "list", "pods", "--as=bob", fails=True) == ""
    assert "*.*" in k("auth", "can-i", "--list")


def test_kubectl_get_watches(k, server, namespace):
    watch = subprocess.Popen(
        ["kubectl", "-n", namespace, "get", "configmap", "-w", "--no-headers"],
        stdout=subprocess.PIPE,
        text=True,
        env=server.environment(),
    )
    try:
        k("create", "configmap", "one")
        assert watch.stdout is not None
        assert watch.stdout.readline().split()[:2] == ["one", "0"]
        k("patch", "configmap", "one", "--type=merge", "-p", '{"data":{"a":"b"}}')
        assert watch.stdout.readline().split()[:2] == ["one", "1"]
    finally:
        watch.kill()
        watch.communicate()


def test_kubectl_wait_returns_after_the_deletion(k):
    k("create", "configmap", "one")
    k("delete", "configmap", "one", "--wait")
    k("run", "p", "--image=nginx")
    assert k("delete", "pod", "p", "--now=true").startswith('pod "p" ')
    assert k("get", "pods") == ""


def test_kubectl_describe(k):
    k("create", "-f", "-", stdin=DEPLOYMENT)
    k("expose", "deployment", "web", "--port=80", "--type=NodePort")
    text = k("describe", "service", "web")
    assert "Type:                     NodePort" in text
    assert "Selector:                 app=web" in text
    assert "Replicas:               3 desired" in k("describe", "deployment", "web")
    k("run", "p", "--image=nginx")
    assert "Service Account:  default" in k("describe", "pod", "p")


def test_kubectl_get_in_chunks_returns_all_objects(k):
    for i in range(5):
        k("create", "configmap", f"c{i}")
    assert len(k("get", "configmap", "--chunk-size=2", "-o", "name").split()) == 5
