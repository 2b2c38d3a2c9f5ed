"""Who may do what."""

from __future__ import annotations

import pytest

from bridgehead.apiserver.access.authentication import read_token_file
from bridgehead.apiserver.access.authorization import POLICY, Authorizer
from bridgehead.apiserver.access.node_authorizer import NodeAuthorizer, references
from bridgehead.apiserver.errors import ApiStatus
from bridgehead.apiserver.http.paths import parse_query, parse_request
from bridgehead.apiserver.http.user import ANONYMOUS, AUTHENTICATED, User, user_from_certificate
from bridgehead.storage import Facts, Key, MemoryStore

PROXY = User("system:kube-proxy", (AUTHENTICATED,))
PROXY_ACCOUNT = User("system:serviceaccount:kube-system:kube-proxy", ("system:serviceaccounts", AUTHENTICATED))
ACCOUNT = User("system:serviceaccount:default:default", ("system:serviceaccounts", AUTHENTICATED))
CONTROLLERS = User("system:kube-controller-manager", (AUTHENTICATED,))
SCHEDULER = User("system:kube-scheduler", (AUTHENTICATED,))
ADMIN = User("admin", ("system:masters", AUTHENTICATED))
NODE1 = User("system:node:node1", ("system:nodes", AUTHENTICATED))
NAMED_LIKE_A_NODE = User("system:node:node1", (AUTHENTICATED,))


@pytest.fixture
async def store():
    store = MemoryStore()
    for name, node in (("mine", "node1"), ("theirs", "node2")):
        spec = {
            "nodeName": node,
            "serviceAccountName": f"sa-{name}",
            "containers": [{"name": "c", "envFrom": [{"configMapRef": {"name": f"cm-{name}"}}]}],
            "volumes": [{"name": "v", "secret": {"secretName": f"secret-{name}"}}],
        }
        pod = {"metadata": {"name": name, "namespace": "n", "uid": name}, "spec": spec}
        await store.create(Key("pods", "n", name), pod, Facts(fields={"spec.nodeName": node}))
    yield store
    await store.close()


@pytest.mark.parametrize(
    ("user", "method", "url", "allowed"),
    [
        (ANONYMOUS, "GET", "/healthz", True),
        (ANONYMOUS, "GET", "/readyz/ping", True),
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
                ("GET", "/api/v1/nodes/node1", True),
                ("POST", "/api/v1/namespaces/default/events", True),
                ("POST", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", True),
                ("PATCH", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x", True),
                ("PATCH", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node1", False),
                ("DELETE", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x", False),
                ("GET", "/api/v1/secrets", False),
                ("PATCH", "/api/v1/namespaces/n/services/s", False),
                ("GET", "/api/v1/pods", False),
            )
        ),
        (CONTROLLERS, "PATCH", "/apis/apps/v1/namespaces/n/deployments/d/status", True),
        (SCHEDULER, "POST", "/api/v1/namespaces/n/pods/p/binding", True),
        (SCHEDULER, "POST", "/api/v1/namespaces/n/pods", False),
        (NODE1, "GET", "/api/v1/services", True),
        (NODE1, "GET", "/api/v1/pods?watch=true", True),
        (NODE1, "PATCH", "/api/v1/nodes/node1/status", True),
        (NODE1, "PATCH", "/api/v1/nodes/node2/status", False),
        (NODE1, "DELETE", "/api/v1/nodes/node1", False),
        (NODE1, "PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node1", True),
        (NODE1, "PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node2", False),
        (NODE1, "PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/node1", False),
        (NODE1, "GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases?watch=true", True),
        (NODE1, "GET", "/apis/coordination.k8s.io/v1/leases", False),
        (NODE1, "GET", "/apis/discovery.k8s.io/v1/endpointslices", True),
        (NODE1, "PATCH", "/api/v1/namespaces/n/pods/mine/status", True),
        (NODE1, "PATCH", "/api/v1/namespaces/n/pods/theirs/status", False),
        (NODE1, "DELETE", "/api/v1/namespaces/n/pods/mine", True),
        (NODE1, "DELETE", "/api/v1/namespaces/n/pods/theirs", False),
        (NODE1, "PATCH", "/api/v1/namespaces/n/pods/mine", False),
        (NODE1, "GET", "/api/v1/namespaces/n/configmaps/cm-mine", True),
        (NODE1, "GET", "/api/v1/namespaces/n/configmaps/cm-theirs", False),
        (NODE1, "GET", "/api/v1/namespaces/n/secrets?watch=true&fieldSelector=metadata.name%3Dsecret-mine", True),
        (NODE1, "GET", "/api/v1/namespaces/n/secrets/secret-theirs", False),
        (NODE1, "GET", "/api/v1/namespaces/n/secrets", False),
        (NODE1, "GET", "/api/v1/secrets", False),
        (NODE1, "POST", "/api/v1/namespaces/n/serviceaccounts/sa-mine/token", True),
        (NODE1, "POST", "/api/v1/namespaces/n/serviceaccounts/sa-theirs/token", False),
        (NAMED_LIKE_A_NODE, "PATCH", "/api/v1/nodes/node1/status", False),
    ],
)
def test_policy(store, user, method, url, allowed):
    path, _, query = url.partition("?")
    request = parse_request(method, path, parse_query(query.encode()))
    assert Authorizer(POLICY, NodeAuthorizer(store)).is_allowed(user, request) == allowed


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
def test_refusals(store, method, path, message):
    with pytest.raises(ApiStatus) as caught:
        Authorizer(POLICY, NodeAuthorizer(store)).check(User("u"), parse_request(method, path, {}))
    assert (caught.value.code, caught.value.message) == (403, message)


def test_everything_a_pod_refers_to():
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


def test_certificates():
    subject = (
        (("organizationName", "system:masters"), ("organizationName", "other")),
        (("commonName", "kubernetes-admin"),),
    )
    user = user_from_certificate({"subject": subject})
    assert user == User("kubernetes-admin", ("system:masters", "other", AUTHENTICATED))
    assert user_from_certificate({}) is None


def test_token_files(tmp_path):
    path = tmp_path / "tokens.csv"
    path.write_text('# who\nsecret,bob,7,"a,b"\nplain,eve,8\n\n')
    assert read_token_file(path) == {
        "secret": User("bob", ("a", "b", AUTHENTICATED), "7"),
        "plain": User("eve", (AUTHENTICATED,), "8"),
    }
    path.write_text("only-a-token\n")
    with pytest.raises(ValueError, match="line 1: expected at least 3 columns"):
        read_token_file(path)
