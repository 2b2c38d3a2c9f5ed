"""Roles and bindings with the real kubectl and the Python client."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterator
from typing import Any

import kubernetes
import pytest

from .apiserver_process import ServerProcess

pytestmark = [pytest.mark.integration, pytest.mark.needs("kubectl")]

NAMESPACE = "rbac"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("rbac")
    with ServerProcess(directory, f"sqlite://{directory}/state.db").running() as server:
        server.kubectl("create", "namespace", NAMESPACE)
        yield server


@pytest.fixture
def k(server):
    """`kubectl`'s output. A failure fails the test; `fails` expects one and gives what was written on stderr."""

    def run(*arguments: str, stdin: str = "", fails: bool = False) -> str:
        result = server.kubectl("-n", NAMESPACE, *arguments, stdin=stdin)
        assert (result.returncode != 0) == fails, result.stderr + result.stdout
        return result.stderr if fails else result.stdout

    return run


def lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_the_default_roles_are_listed_as_in_kubernetes(k):
    roles = lines(k("get", "clusterroles", "-l", "kubernetes.io/bootstrapping=rbac-defaults"))
    assert roles[0] == ["NAME", "CREATED", "AT"]
    assert {"admin", "edit", "view", "cluster-admin", "system:node-proxier"} <= {role[0] for role in roles}
    bindings = lines(k("get", "clusterrolebindings", "system:discovery", "system:kube-dns", "-o", "wide"))
    assert bindings[0] == ["NAME", "ROLE", "AGE", "USERS", "GROUPS", "SERVICEACCOUNTS"]
    assert bindings[1][:2] == ["system:discovery", "ClusterRole/system:discovery"]
    assert bindings[1][3:] == ["system:authenticated"]
    assert bindings[2][3:] == ["kube-system/kube-dns"]
    assert "Kind:  ClusterRole" in k("describe", "clusterrolebinding", "cluster-admin")
    assert "services/proxy" in k("describe", "clusterrole", "edit")
    assert lines(k("get", "roles", "-n", "kube-public", "--no-headers"))[0][0] == "system:controller:bootstrap-signer"


def test_a_binding_gives_rights_at_once(k):
    can_i = ("auth", "can-i", "--as=alice")
    assert k(*can_i, "list", "pods", fails=True) == ""
    k("create", "role", "reader", "--verb=get,list,watch", "--resource=pods,pods/log,deployments.apps")
    k("create", "rolebinding", "readers", "--role=reader", "--user=alice", "--group=dev", "--serviceaccount=rbac:robot")
    assert k(*can_i, "list", "pods") == "yes\n"
    assert k(*can_i, "get", "pods", "--subresource=log") == "yes\n"
    assert k(*can_i, "get", "pods", "--subresource=exec", fails=True) == ""
    assert k(*can_i, "list", "deployments.apps") == "yes\n"
    assert k(*can_i, "list", "pods", "-n", "default", fails=True) == ""
    assert k("auth", "can-i", "list", "pods", "--as=bob", "--as-group=dev") == "yes\n"
    assert k("auth", "can-i", "list", "pods", "--as=system:serviceaccount:rbac:robot") == "yes\n"
    assert k("auth", "can-i", "get", "/version", "--as=bob") == "yes\n"
    assert k("auth", "can-i", "get", "/metrics", "--as=bob", fails=True) == ""
    assert k("get", "pods", "--as=alice") == ""
    assert k("get", "secrets", "--as=alice", fails=True) == (
        'Error from server (Forbidden): secrets is forbidden: User "alice" cannot list resource "secrets" in API group '
        '"" in the namespace "rbac"\n'
    )
    listed = [" ".join(line) for line in lines(k("auth", "can-i", "--list", "--as=alice"))]
    assert "pods [] [] [get list watch]" in listed
    assert "deployments.apps [] [] [get list watch]" in listed
    assert "[/apis/*] [] [get]" in listed
    wide = lines(k("get", "rolebindings", "-o", "wide"))
    assert [cell for cell in wide[1] if cell != wide[1][2]] == ["readers", "Role/reader", "alice", "dev", "rbac/robot"]
    k("delete", "rolebinding", "readers")
    assert k("get", "pods", "--as=alice", fails=True)
    k("delete", "role", "reader")


def test_who_am_i_shows_the_impersonated_user(k):
    impersonated = ("--as=carol", "--as-group=dev", "--as-uid=7")
    info = json.loads(k("auth", "whoami", "-o", "json", *impersonated))["status"]["userInfo"]
    assert info == {"username": "carol", "uid": "7", "groups": ["dev", "system:authenticated"]}
    assert "kubernetes-admin" in k("auth", "whoami")


def test_a_namespace_admin_cannot_give_more_than_he_has(k):
    k("create", "rolebinding", "admins", "--clusterrole=admin", "--user=dave")
    as_dave = "--as=dave"
    k("create", "role", "own", "--verb=get", "--resource=pods", as_dave)
    refused = k("create", "role", "more", "--verb=get", "--resource=pods,nodes", as_dave, fails=True)
    assert refused == (
        'Error from server (Forbidden): roles.rbac.authorization.k8s.io "more" is forbidden: user "dave" '
        '(groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n'
        '{APIGroups:[""], Resources:["nodes"], Verbs:["get"]}\n'
    )
    refused = k("create", "rolebinding", "all", "--clusterrole=cluster-admin", "--user=dave", as_dave, fails=True)
    assert '{APIGroups:["*"], Resources:["*"], Verbs:["*"]}\n{NonResourceURLs:["*"], Verbs:["*"]}' in refused
    k("create", "rolebinding", "views", "--clusterrole=view", "--user=erin", as_dave)
    refused = k("patch", "rolebinding", "views", "-p", '{"roleRef": {"name": "edit"}}', fails=True)
    assert refused == (
        'The RoleBinding "views" is invalid: roleRef: Invalid value: '
        '{"APIGroup":"rbac.authorization.k8s.io","Kind":"ClusterRole","Name":"edit"}: cannot change roleRef\n'
    )
    k("delete", "role/own", "rolebinding/views", "rolebinding/admins")


RECONCILED = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: widgets, labels: {rbac.authorization.k8s.io/aggregate-to-view: "true"}}
rules:
- {apiGroups: [example.com], resources: [widgets], verbs: [get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: viewers, namespace: rbac}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: frank}
"""


def test_auth_reconcile_adds_what_is_missing(k, server):
    created = k("auth", "reconcile", "-f", "-", stdin=RECONCILED)
    assert "clusterrole.rbac.authorization.k8s.io/widgets reconciled" in created
    # The role `view` has the rules of the new role as soon as it is aggregated.
    with k_watch(server) as view:
        assert any(rule["apiGroups"] == ["example.com"] for rule in view["rules"] if "apiGroups" in rule)
    assert ["widgets.example.com", "[]", "[]", "[get", "list]"] in lines(k("auth", "can-i", "--list", "--as=frank"))
    other = RECONCILED.replace("name: view}", "name: edit}").replace("frank", "grace")
    changed = k("auth", "reconcile", "-f", "-", stdin=other)
    assert "rolebinding.rbac.authorization.k8s.io/viewers reconciled" in changed
    (edit,) = lines(k("get", "rolebinding", "viewers", "-o", "wide", "--no-headers"))
    assert edit[1] == "ClusterRole/edit"
    k("delete", "rolebinding/viewers", "clusterrole/widgets")


@contextlib.contextmanager
def k_watch(server: ServerProcess) -> Iterator[dict[str, Any]]:
    """Wait until the role `view` contains the rules for widgets, which another task of the server writes."""
    api = kubernetes.client.RbacAuthorizationV1Api(client_of(server))
    watch = kubernetes.watch.Watch()
    for event in watch.stream(api.list_cluster_role, field_selector="metadata.name=view", timeout_seconds=100):
        if "widgets" in json.dumps(event["raw_object"]["rules"]):
            yield event["raw_object"]
            break
    watch.stop()


def client_of(server: ServerProcess) -> kubernetes.client.ApiClient:
    return kubernetes.config.new_client_from_config(str(server.directory / "kubeconfig"))


def test_the_python_client_reviews_and_gets_tokens_with_rights(k, server):
    client = client_of(server)
    rbac = kubernetes.client.RbacAuthorizationV1Api(client)
    k("create", "serviceaccount", "bot")
    rule = kubernetes.client.V1PolicyRule(api_groups=[""], resources=["configmaps"], verbs=["list"])
    metadata = kubernetes.client.V1ObjectMeta(name="bot")
    rbac.create_namespaced_role(NAMESPACE, kubernetes.client.V1Role(metadata=metadata, rules=[rule]))
    reference = kubernetes.client.V1RoleRef(api_group="rbac.authorization.k8s.io", kind="Role", name="bot")
    subject = kubernetes.client.RbacV1Subject(kind="ServiceAccount", name="bot")
    rbac.create_namespaced_role_binding(
        NAMESPACE, kubernetes.client.V1RoleBinding(metadata=metadata, role_ref=reference, subjects=[subject])
    )
    token = k("create", "token", "bot").strip()
    assert json.loads(server.read(f"/api/v1/namespaces/{NAMESPACE}/configmaps", token=token))["kind"] == "ConfigMapList"
    payload = token.split(".")[1]
    account = json.loads(base64.urlsafe_b64decode(payload + "=="))["sub"]
    attributes = kubernetes.client.V1ResourceAttributes(verb="list", resource="configmaps", namespace=NAMESPACE)
    spec = kubernetes.client.V1SubjectAccessReviewSpec(user=account, resource_attributes=attributes)
    review: Any = kubernetes.client.AuthorizationV1Api(client).create_subject_access_review(
        kubernetes.client.V1SubjectAccessReview(spec=spec)
    )
    assert review.status.allowed
    assert review.status.reason == (
        'RBAC: allowed by RoleBinding "bot/rbac" of Role "bot" to ServiceAccount "bot/rbac"'
    )


def test_rights_survive_a_restart_and_default_roles_return(k, server):
    k("create", "clusterrole", "nodes", "--verb=get", "--resource=nodes")
    k("create", "clusterrolebinding", "nodes", "--clusterrole=nodes", "--user=heidi")
    k("delete", "clusterrole", "system:heapster")
    k(
        "annotate",
        "clusterrolebinding",
        "system:monitoring",
        "--overwrite",
        "rbac.authorization.kubernetes.io/autoupdate=false",
    )
    before = k("get", "clusterroles", "-o", "jsonpath={.items[*].metadata.resourceVersion}").split()
    server.stop()
    server.start()
    assert k("auth", "can-i", "get", "nodes", "--as=heidi") == "yes\n"
    after = k("get", "clusterroles", "-o", "jsonpath={.items[*].metadata.resourceVersion}").split()
    # The new one is added; no other has been written again.
    assert set(before) < set(after)
    assert len(after) == len(before) + 1
