"""Authorization: the policy, and the rights of nodes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bridgehead.apiserver.access.authorization import Authorizer
from bridgehead.apiserver.access.node_authorizer import NodeAuthorizer
from bridgehead.apiserver.access.node_relations import NodeRelations, volume_secrets
from bridgehead.apiserver.access.rbac.policy_cache import StoredPolicy
from bridgehead.apiserver.errors import ApiStatus
from bridgehead.apiserver.http.request_info import parse_query, parse_request
from bridgehead.apiserver.http.user import ANONYMOUS, AUTHENTICATED, InvalidCredentials, User, user_from_certificate
from bridgehead.apiserver.resources.pods import references
from bridgehead.apiserver.resources.rbac.defaults import default_objects
from bridgehead.objects import progress
from bridgehead.storage import Facts, Key, MemoryStore

PROXY = User("system:kube-proxy", (AUTHENTICATED,))
PROXY_ACCOUNT = User("system:serviceaccount:kube-system:kube-proxy", ("system:serviceaccounts", AUTHENTICATED))
ACCOUNT = User("system:serviceaccount:default:default", ("system:serviceaccounts", AUTHENTICATED))
CONTROLLERS = User("system:kube-controller-manager", (AUTHENTICATED,))
SCHEDULER = User("system:kube-scheduler", (AUTHENTICATED,))
ADMIN = User("admin", ("system:masters", AUTHENTICATED))
NODE1 = User("system:node:node1", ("system:nodes", AUTHENTICATED))
NAMED_LIKE_A_NODE = User("system:node:node1", (AUTHENTICATED,))
NAMELESS = User("system:node:", ("system:nodes", AUTHENTICATED))
LEASES = "/apis/coordination.k8s.io/v1/namespaces"
STORAGE, DEVICES = "/apis/storage.k8s.io/v1", "/apis/resource.k8s.io/v1"
OWN_PODS = "fieldSelector=spec.nodeName%3Dnode1"


@pytest.fixture(scope="module")
def store():
    """A store that the tests only read."""
    return asyncio.run(filled_store())


async def filled_store() -> MemoryStore:
    store = MemoryStore()
    for obj in default_objects():
        metadata = obj["metadata"]
        resource = f"{obj['kind'].lower()}s.rbac.authorization.k8s.io"
        await store.create(Key(resource, metadata.get("namespace", ""), metadata["name"]), obj, Facts())
    for name, node in (("mine", "node1"), ("theirs", "node2"), ("unbound", ""), ("mirror", "node1")):
        spec = {
            "nodeName": node,
            "serviceAccountName": f"sa-{name}",
            "containers": [{"name": "c", "envFrom": [{"configMapRef": {"name": f"cm-{name}"}}]}],
            "volumes": [
                {"name": "v", "secret": {"secretName": f"secret-{name}"}},
                {"name": "data", "persistentVolumeClaim": {"claimName": f"data-{name}"}},
                {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
            ],
            "resourceClaims": [
                {"name": "given", "resourceClaimName": f"device-{name}"},
                {"name": "made", "resourceClaimTemplateName": "t"},
                {"name": "not-made", "resourceClaimTemplateName": "t"},
            ],
        }
        status = {"resourceClaimStatuses": [{"name": "made", "resourceClaimName": f"made-for-{name}"}]}
        of_pod: dict[str, Any] = {"name": name, "namespace": "n", "uid": name}
        pod = {"metadata": of_pod, "spec": spec, "status": status}
        if name == "mirror":
            of_pod["annotations"] = {"kubernetes.io/config.mirror": "hash"}
        await store.create(Key("pods", "n", name), pod, Facts(fields={"spec.nodeName": node}))
        csi = {
            "nodeStageSecretRef": {"name": f"stage-of-{name}", "namespace": "vault"},
            "controllerExpandSecretRef": {"name": f"expand-of-{name}", "namespace": "vault"},
        }
        volume = {"spec": {"csi": csi, "claimRef": {"namespace": "n", "name": f"data-{name}"}}}
        await store.create(Key("persistentvolumes", "", f"of-{name}"), volume | named(f"of-{name}"), Facts())
    for node in ("node1", "node2"):
        for resource in ("volumeattachments.storage.k8s.io", "resourceslices.resource.k8s.io"):
            of_node = named(f"of-{node}") | {"spec": {"nodeName": node}}
            await store.create(Key(resource, "", f"of-{node}"), of_node, Facts())
    await store.create(Key("persistentvolumes", "", "unclaimed"), named("unclaimed") | {"spec": {}}, Facts())
    return store


def named(name):
    return {"metadata": {"name": name, "uid": name}}


def authorizer(store):
    return Authorizer(StoredPolicy(store), NodeAuthorizer(NodeRelations(store)))


@pytest.mark.parametrize(
    ("user", "method", "url", "allowed"),
    [
        (ANONYMOUS, "GET", "/healthz", True),
        (ANONYMOUS, "GET", "/readyz/ping", False),
        (ANONYMOUS, "GET", "/version", True),
        (ANONYMOUS, "GET", "/api", False),
        (ANONYMOUS, "GET", "/metrics", False),
        (ANONYMOUS, "POST", "/healthz", False),
        (ANONYMOUS, "GET", "/healthzz", False),
        (ANONYMOUS, "GET", "/api/v1/pods", False),
        (ADMIN, "DELETE", "/api/v1/namespaces/n/pods/p", True),
        (ADMIN, "GET", "/metrics", True),
        (ACCOUNT, "GET", "/apis/apps/v1", True),
        (ACCOUNT, "GET", "/openapi/v3/api/v1", True),
        (ACCOUNT, "GET", "/api/v1/pods", False),
        (ACCOUNT, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", True),
        (ACCOUNT, "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", False),
        *(
            (user, method, url, allowed)
            for user in (PROXY, PROXY_ACCOUNT)
            for method, url, allowed in (
                ("GET", "/api/v1/services?watch=true", True),
                ("GET", "/apis/discovery.k8s.io/v1/endpointslices", True),
                ("GET", "/apis/networking.k8s.io/v1/servicecidrs?watch=true", True),
                ("DELETE", "/apis/networking.k8s.io/v1/servicecidrs/kubernetes", False),
                ("GET", "/apis/networking.k8s.io/v1/ipaddresses", False),
                ("GET", "/api/v1/nodes/node1", True),
                ("POST", "/api/v1/namespaces/default/events", True),
                ("POST", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", True),
                ("PATCH", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x", True),
                ("PATCH", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node1", False),
                ("DELETE", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x", False),
                ("GET", "/api/v1/secrets", False),
                ("PATCH", "/api/v1/namespaces/n/services/s", False),
            )
        ),
        (PROXY, "GET", "/api/v1/pods", False),
        (PROXY_ACCOUNT, "GET", "/api/v1/pods", True),  # the lab's proxies map host ports
        (CONTROLLERS, "PATCH", "/apis/apps/v1/namespaces/n/deployments/d/status", True),
        (CONTROLLERS, "DELETE", "/apis/example.com/v1/namespaces/n/widgets", True),
        (CONTROLLERS, "POST", "/api/v1/namespaces/n/pods", True),
        (CONTROLLERS, "POST", "/api/v1/namespaces/n/pods/p/binding", True),
        (CONTROLLERS, "POST", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", True),
        (CONTROLLERS, "PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x", True),
        (CONTROLLERS, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", False),
        (SCHEDULER, "POST", "/api/v1/namespaces/n/pods/p/binding", True),
        (SCHEDULER, "POST", "/api/v1/namespaces/n/pods", False),
        (NODE1, "GET", "/api/v1/services", True),
        (NODE1, "GET", "/api/v1/pods?watch=true", False),
        (NODE1, "GET", f"/api/v1/pods?watch=true&{OWN_PODS}", True),
        (NODE1, "GET", f"/api/v1/namespaces/n/pods?{OWN_PODS},status.phase%3DRunning", True),
        (NODE1, "GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode2", False),
        (NODE1, "GET", "/api/v1/pods?fieldSelector=spec.nodeName!%3Dnode1", False),
        (NODE1, "GET", "/api/v1/pods?fieldSelector=spec.nodeName", False),
        (NODE1, "GET", "/api/v1/pods?labelSelector=spec.nodeName%3Dnode1", False),
        (NODE1, "GET", "/api/v1/namespaces/n/pods?watch=true&fieldSelector=metadata.name%3Dmine", True),
        (NODE1, "GET", "/api/v1/namespaces/n/pods?watch=true&fieldSelector=metadata.name%3Dtheirs", False),
        (NODE1, "GET", "/api/v1/namespaces/n/pods/mine", True),
        (NODE1, "GET", "/api/v1/namespaces/n/pods/theirs", False),
        (NODE1, "GET", "/api/v1/namespaces/n/pods/mine/log", False),
        (NODE1, "POST", "/api/v1/namespaces/n/pods/mine/exec", False),
        (NODE1, "POST", "/api/v1/namespaces/n/pods/mine/binding", False),
        (NODE1, "PATCH", "/api/v1/namespaces/n/pods/mine/ephemeralcontainers", False),
        (NODE1, "DELETE", f"/api/v1/namespaces/n/pods?{OWN_PODS}", False),
        (NODE1, "GET", "/api/v1/nodes", False),
        (NODE1, "GET", "/api/v1/nodes?watch=true&fieldSelector=metadata.name%3Dnode1", True),
        (NODE1, "GET", "/api/v1/nodes?watch=true&fieldSelector=metadata.name%3Dnode2", False),
        (NODE1, "GET", "/api/v1/nodes/node1", True),
        (NODE1, "GET", "/api/v1/nodes/node2", False),
        (NODE1, "GET", "/api/v1/nodes/node1/proxy/", False),
        (NODE1, "PATCH", "/api/v1/nodes/node1/status", True),
        (NODE1, "DELETE", "/api/v1/nodes/node1", False),
        (NODE1, "DELETE", "/api/v1/nodes", False),
        (NODE1, "PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node1", True),
        (NODE1, "PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node2", False),
        (NODE1, "PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/node1", False),
        (NODE1, "GET", f"{LEASES}/kube-system/leases?watch=true&labelSelector={progress.SELECTOR}", True),
        (NODE1, "GET", f"{LEASES}/kube-system/leases?watch=true", False),
        (NODE1, "GET", f"{LEASES}/kube-system/leases/kube-controller-manager", False),
        (NODE1, "PATCH", f"{LEASES}/kube-system/leases/kube-proxy-node2", False),
        (NODE1, "POST", f"{LEASES}/kube-system/leases", False),
        (NODE1, "GET", f"{LEASES}/kube-node-lease/leases", False),
        (NODE1, "GET", f"{LEASES}/kube-node-lease/leases/node2", False),
        (NODE1, "GET", "/apis/coordination.k8s.io/v1/leases", False),
        (NODE1, "GET", "/apis/discovery.k8s.io/v1/endpointslices", True),
        (NODE1, "PATCH", "/apis/discovery.k8s.io/v1/namespaces/n/endpointslices/e", False),
        (NODE1, "PATCH", "/api/v1/namespaces/n/pods/mine/status", True),
        (NODE1, "DELETE", "/api/v1/namespaces/n/pods/mine", True),
        (NODE1, "PATCH", "/api/v1/namespaces/n/pods/mine", False),
        (NODE1, "GET", "/api/v1/namespaces/n/configmaps/cm-mine", True),
        (NODE1, "GET", "/api/v1/namespaces/n/configmaps/cm-theirs", False),
        (NODE1, "GET", "/api/v1/namespaces/n/secrets?watch=true&fieldSelector=metadata.name%3Dsecret-mine", True),
        (NODE1, "GET", "/api/v1/namespaces/n/secrets/secret-theirs", False),
        (NODE1, "GET", "/api/v1/namespaces/n/secrets/secret-mirror", False),
        (NODE1, "GET", "/api/v1/namespaces/n/secrets/secret-unbound", False),
        (NODE1, "GET", "/api/v1/namespaces/other/secrets/secret-mine", False),
        (NODE1, "PATCH", "/api/v1/namespaces/n/secrets/secret-mine", False),
        (NODE1, "DELETE", "/api/v1/namespaces/n/secrets/secret-mine", False),
        (NODE1, "GET", "/api/v1/namespaces/n/secrets", False),
        (NODE1, "GET", "/api/v1/secrets", False),
        (NODE1, "POST", "/api/v1/namespaces/n/serviceaccounts/sa-mine/token", True),
        (NODE1, "POST", "/api/v1/namespaces/n/serviceaccounts/sa-theirs/token", False),
        (NODE1, "GET", "/api/v1/namespaces/n/serviceaccounts/sa-mine", True),
        (NODE1, "GET", "/api/v1/namespaces/n/serviceaccounts/sa-theirs", False),
        (NODE1, "GET", "/api/v1/namespaces/n/serviceaccounts", False),
        (NODE1, "DELETE", "/api/v1/namespaces/n/serviceaccounts/sa-mine", False),
        (NODE1, "GET", "/api/v1/namespaces/n/endpoints/e", True),
        (NODE1, "GET", "/api/v1/namespaces/n/endpoints", False),
        (NODE1, "GET", f"{STORAGE}/csidrivers?watch=true", True),
        (NODE1, "GET", "/apis/node.k8s.io/v1/runtimeclasses", True),
        (NODE1, "POST", "/apis/node.k8s.io/v1/runtimeclasses", False),
        *(
            (NODE1, method, f"{STORAGE}/csinodes{path}", allowed)
            for method, path, allowed in (
                ("GET", "/node1", True),
                ("GET", "/node2", False),
                ("GET", "", False),
                ("POST", "", True),
                ("PUT", "/node1", True),
                ("PATCH", "/node2", False),
                ("DELETE", "/node1", True),
                ("PATCH", "/node1/status", False),
            )
        ),
        *(
            (NODE1, method, f"{DEVICES}/{path}", allowed)
            for method, path, allowed in (
                ("POST", "resourceslices", True),
                ("GET", "resourceslices", False),
                ("GET", "resourceslices?fieldSelector=spec.nodeName%3Dnode1", True),
                ("DELETE", "resourceslices?fieldSelector=spec.nodeName%3Dnode1", True),
                ("DELETE", "resourceslices", False),
                ("GET", "resourceslices/of-node1", True),
                ("PATCH", "resourceslices/of-node2", False),
                ("DELETE", "resourceslices/none", False),
                ("GET", "resourceslices/of-node1/status", False),
                ("PROPFIND", "resourceslices/of-node1", False),
                ("GET", "namespaces/n/resourceclaims/device-mine", True),
                ("GET", "namespaces/n/resourceclaims/made-for-mine", True),
                ("GET", "namespaces/n/resourceclaims/device-theirs", False),
                ("GET", "namespaces/n/resourceclaims/device-mirror", False),
                ("PATCH", "namespaces/n/resourceclaims/device-mine", False),
            )
        ),
        (NODE1, "GET", f"{STORAGE}/volumeattachments/of-node1", True),
        (NODE1, "GET", f"{STORAGE}/volumeattachments/of-node2", False),
        (NODE1, "GET", f"{STORAGE}/volumeattachments", False),
        (NODE1, "GET", "/api/v1/namespaces/n/persistentvolumeclaims/data-mine", True),
        (NODE1, "GET", "/api/v1/namespaces/n/persistentvolumeclaims/mine-scratch", True),
        (NODE1, "GET", "/api/v1/namespaces/n/persistentvolumeclaims/data-theirs", False),
        (NODE1, "GET", "/api/v1/namespaces/n/persistentvolumeclaims", False),
        (NODE1, "PATCH", "/api/v1/namespaces/n/persistentvolumeclaims/data-mine", False),
        (NODE1, "PATCH", "/api/v1/namespaces/n/persistentvolumeclaims/data-mine/status", True),
        (NODE1, "PUT", "/api/v1/namespaces/n/persistentvolumeclaims/data-theirs/status", False),
        (NODE1, "GET", "/api/v1/namespaces/n/persistentvolumeclaims/data-mine/status", False),
        (NODE1, "GET", "/api/v1/persistentvolumes/of-mine", True),
        (NODE1, "GET", "/api/v1/persistentvolumes/of-theirs", False),
        (NODE1, "GET", "/api/v1/persistentvolumes/unclaimed", False),
        (NODE1, "GET", "/api/v1/persistentvolumes/of-mine/status", False),
        (NODE1, "GET", "/api/v1/namespaces/vault/secrets/stage-of-mine", True),
        (NODE1, "GET", "/api/v1/namespaces/vault/secrets/stage-of-theirs", False),
        (NODE1, "GET", "/api/v1/namespaces/vault/secrets/expand-of-mine", False),
        (NODE1, "GET", "/api/v1/namespaces/n/configmaps/cm-mine/status", False),
        (NODE1, "PATCH", "/api/v1/namespaces/n/services/s/status", False),
        (NAMELESS, "GET", "/api/v1/namespaces/n/secrets/secret-unbound", False),
        (NAMELESS, "POST", "/api/v1/nodes", False),
        (CONTROLLERS, "PATCH", "/api/v1/nodes/node1", True),
        (NAMED_LIKE_A_NODE, "PATCH", "/api/v1/nodes/node1/status", False),
    ],
)
def test_the_policy_allows_and_denies_requests(store, user, method, url, allowed):
    path, _, query = url.partition("?")
    request = parse_request(method, path, parse_query(query.encode()))
    assert authorizer(store).decide(user, request).allowed == allowed


@pytest.mark.parametrize(
    ("method", "path", "message"),
    [
        (
            "GET",
            "/api/v1/namespaces/default/services",
            'services is forbidden: User "u" cannot list resource "services" in API group "" '
            'in the namespace "default"',
        ),
        (
            "PATCH",
            "/apis/apps/v1/namespaces/n/deployments/d/status",
            'deployments.apps "d" is forbidden: User "u" cannot patch resource "deployments/status" '
            'in API group "apps" in the namespace "n"',
        ),
        (
            "GET",
            "/api/v1/nodes/a",
            'nodes "a" is forbidden: User "u" cannot get resource "nodes" in API group "" at the cluster scope',
        ),
        ("GET", "/metrics", 'forbidden: User "u" cannot get path "/metrics"'),
    ],
)
def test_forbidden_messages_match_kubernetes(store, method, path, message):
    with pytest.raises(ApiStatus) as caught:
        authorizer(store).check(User("u"), parse_request(method, path, {}))
    assert (caught.value.code, caught.value.message) == (403, message)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/api/v1/pods", "can only list/watch pods with spec.nodeName field selector"),
        ("/api/v1/nodes", "node 'node1' cannot read all nodes, only its own Node object"),
        ("/api/v1/nodes/node2", "node 'node1' cannot read 'node2', only its own Node object"),
        ("/api/v1/namespaces/n/secrets/x", "no relationship found between node 'node1' and this object"),
        ("/api/v1/secrets", "can only read namespaced object of this type"),
        ("/api/v1/namespaces/n/secrets", "No Object name found"),
        ("/apis/storage.k8s.io/v1/csinodes/x", "can only access CSINode with the same name as the requesting node"),
        ("/api/v1/persistentvolumes", "can only get individual resources of this type"),
        (
            "/apis/resource.k8s.io/v1/resourceslices",
            "can only list/watch/deletecollection resourceslices with spec.nodeName field selector",
        ),
        ("/apis/apps/v1/deployments", ""),
    ],
)
def test_forbidden_messages_for_nodes_state_the_reason(store, path, reason):
    with pytest.raises(ApiStatus) as caught:
        authorizer(store).check(NODE1, parse_request("GET", path, {}))
    message = caught.value.message
    assert message.endswith(f": {reason}") if reason else message.endswith("at the cluster scope")


def test_decisions_of_both_authorizers_are_reported(store):
    authorized = authorizer(store)
    allowed = authorized.decide(ACCOUNT, parse_request("GET", "/apis", {}))
    assert allowed.reason == (
        'RBAC: allowed by ClusterRoleBinding "system:discovery" of ClusterRole "system:discovery" '
        'to Group "system:authenticated"'
    )
    # An administrator needs no role.
    assert authorized.decide(ADMIN, parse_request("GET", "/apis", {})) == (True, "")
    assert authorized.decide(NODE1, parse_request("GET", "/api/v1/services", {})) == (True, "")


def test_secrets_of_volumes_are_those_that_the_kubelet_reads():
    claim = {"claimRef": {"namespace": "n", "name": "c"}}
    own, elsewhere = {"name": "s"}, {"name": "s", "namespace": "vault"}
    for source, secrets in (
        ({"cephfs": {"secretRef": own}}, {("n", "s")}),
        ({"rbd": {"secretRef": elsewhere}}, {("vault", "s")}),
        ({"azureFile": {"secretName": "s"}}, {("n", "s")}),
        ({"azureFile": {"secretName": "s", "secretNamespace": "vault"}}, {("vault", "s")}),
        ({"csi": {"nodePublishSecretRef": elsewhere, "controllerPublishSecretRef": {"name": "x"}}}, {("vault", "s")}),
        ({"nfs": {"server": "a"}}, set()),
    ):
        assert volume_secrets({"spec": {**claim, **source}}) == secrets


def test_references_of_a_pod_are_complete():
    spec = {
        "imagePullSecrets": [{"name": "pull"}],
        "initContainers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "key", "key": "k"}}}]}],
        "volumes": [
            {"configMap": {"name": "plain"}},
            {
                "projected": {
                    "sources": [{"secret": {"name": "projected"}}, {"configMap": {"name": "kube-root-ca.crt"}}]
                }
            },
        ],
    }
    assert set(references(spec)) == {
        ("secret", "pull"),
        ("secret", "key"),
        ("configmap", "plain"),
        ("secret", "projected"),
        ("configmap", "kube-root-ca.crt"),
    }


def test_a_certificate_names_user_and_groups():
    subject = (
        (("organizationName", "system:masters"), ("organizationName", "other")),
        (("commonName", "kubernetes-admin"),),
    )
    user = user_from_certificate({"subject": subject}, b"DER")
    digest = "bffd28c8eeb10a5e50cf17b58f477ea1803895ae69744e6eb53cbcc3bf427adb"
    extra = {"authentication.kubernetes.io/credential-id": (f"X509SHA256={digest}",)}
    assert user == User("kubernetes-admin", ("system:masters", "other", AUTHENTICATED), "", extra)
    assert user_from_certificate({}, b"") is None


def test_a_certificate_may_name_one_uid():
    uid, name = (("1.3.6.1.4.1.57683.2", "0815"),), (("commonName", "ann"),)
    user = user_from_certificate({"subject": (name, uid)}, b"")
    assert user is not None
    assert user.uid == "0815"
    assert user_from_certificate({"subject": (uid,)}, b"") is None  # such a client is anonymous, or has a token
    with pytest.raises(InvalidCredentials, match="several uids or an empty one"):
        user_from_certificate({"subject": (name, uid, uid)}, b"")
