"""Default ClusterRoles of users and components, and their bindings.

Pure: no I/O, no clock, no randomness. Source: Kubernetes plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go,
with the feature gates at the defaults of 1.36.
"""

from __future__ import annotations

from bridgehead.apiserver.resource import JsonObject

from .notation import (
    READ,
    READ_UPDATE,
    READ_WRITE,
    WRITE,
    account,
    aggregated_role,
    allow,
    allow_urls,
    bind,
    cluster_role,
    events,
    group,
    user,
)

_CERTIFICATES, _STORAGE, _DEVICES = "certificates.k8s.io", "storage.k8s.io", "resource.k8s.io"
_PUBLIC = "/healthz /livez /readyz /version /version/"
_AUTHENTICATED = "system:authenticated"


def cluster_roles() -> list[JsonObject]:
    return [*_user_roles(), *_aggregated_roles(), *_certificate_roles(), *_component_roles(), *_node_roles()]


def cluster_role_bindings() -> list[JsonObject]:
    return [
        bind("cluster-admin", group("system:masters")),
        bind("system:monitoring", group("system:monitoring")),
        bind("system:discovery", group(_AUTHENTICATED)),
        bind("system:basic-user", group(_AUTHENTICATED)),
        bind("system:public-info-viewer", group(_AUTHENTICATED), group("system:unauthenticated")),
        bind("system:node-proxier", user("system:kube-proxy")),
        bind("system:kube-controller-manager", user("system:kube-controller-manager")),
        bind("system:kube-dns", account("kube-dns")),
        bind("system:kube-scheduler", user("system:kube-scheduler")),
        bind("system:volume-scheduler", user("system:kube-scheduler")),
        bind("system:service-account-issuer-discovery", group("system:serviceaccounts")),
        # Nodes have their rights from the node authorizer.
        bind("system:node"),
    ]


def _user_roles() -> list[JsonObject]:
    return [
        cluster_role("cluster-admin", allow("*", "*", "*"), allow_urls("*", "*")),
        cluster_role(
            "system:discovery",
            allow_urls(
                "get",
                "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/",
            ),
        ),
        cluster_role("system:public-info-viewer", allow_urls("get", _PUBLIC)),
        cluster_role(
            "system:basic-user",
            allow("create", "selfsubjectaccessreviews selfsubjectrulesreviews", "authorization.k8s.io"),
            allow("create", "selfsubjectreviews", "authentication.k8s.io"),
        ),
        cluster_role(
            "system:monitoring",
            allow_urls("get", "/healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/*"),
            allow_urls("get", "/flagz"),
            allow_urls("get", "/statusz"),
        ),
        cluster_role(
            "system:service-account-issuer-discovery",
            allow_urls(
                "get",
                "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/",
            ),
        ),
    ]


def _aggregated_roles() -> list[JsonObject]:
    return [
        aggregated_role("admin"),
        aggregated_role("edit", to="admin"),
        aggregated_role("view", to="edit"),
        cluster_role(
            "system:aggregate-to-admin",
            allow("create", "localsubjectaccessreviews", "authorization.k8s.io"),
            allow(READ_WRITE, "rolebindings roles", "rbac.authorization.k8s.io"),
            to="admin",
        ),
        cluster_role(
            "system:aggregate-to-edit",
            allow(READ, "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"),
            allow("impersonate", "serviceaccounts"),
            allow(WRITE, "pods pods/attach pods/exec pods/portforward pods/proxy"),
            allow("create", "pods/eviction"),
            allow("patch update", "pods/resize"),
            allow(
                WRITE,
                "configmaps events persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets"
                " serviceaccounts services services/proxy",
            ),
            allow("create", "serviceaccounts/token"),
            allow(
                WRITE,
                "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale"
                " statefulsets statefulsets/scale",
                "apps",
            ),
            allow(WRITE, "horizontalpodautoscalers", "autoscaling"),
            allow(WRITE, "cronjobs jobs", "batch"),
            allow(
                WRITE,
                "daemonsets deployments deployments/rollback deployments/scale ingresses networkpolicies replicasets"
                " replicasets/scale replicationcontrollers/scale",
                "extensions",
            ),
            allow(WRITE, "poddisruptionbudgets", "policy"),
            allow(WRITE, "ingresses networkpolicies", "networking.k8s.io"),
            allow(READ_WRITE, "leases", "coordination.k8s.io"),
            allow(WRITE, "resourceclaims resourceclaimtemplates", _DEVICES),
            to="edit",
        ),
        cluster_role(
            "system:aggregate-to-view",
            allow(
                READ,
                "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers"
                " replicationcontrollers/scale serviceaccounts services services/status",
            ),
            allow(
                READ,
                "bindings events limitranges namespaces/status pods/log pods/status replicationcontrollers/status"
                " resourcequotas resourcequotas/status",
            ),
            allow(READ, "namespaces"),
            allow(READ, "endpointslices", "discovery.k8s.io"),
            allow(
                READ,
                "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status"
                " replicasets replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status",
                "apps",
            ),
            allow(READ, "horizontalpodautoscalers horizontalpodautoscalers/status", "autoscaling"),
            allow(READ, "cronjobs cronjobs/status jobs jobs/status", "batch"),
            allow(
                READ,
                "daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses"
                " ingresses/status networkpolicies replicasets replicasets/scale replicasets/status"
                " replicationcontrollers/scale",
                "extensions",
            ),
            allow(READ, "poddisruptionbudgets poddisruptionbudgets/status", "policy"),
            allow(READ, "ingresses ingresses/status networkpolicies", "networking.k8s.io"),
            allow(READ, "resourceclaims resourceclaims/status resourceclaimtemplates", _DEVICES),
            to="view",
        ),
    ]


def _certificate_roles() -> list[JsonObject]:
    prefix = f"system:{_CERTIFICATES}:"
    approvers = (
        ("kube-apiserver-client-approver", "kubernetes.io/kube-apiserver-client"),
        ("kube-apiserver-client-kubelet-approver", "kubernetes.io/kube-apiserver-client-kubelet"),
        ("kubelet-serving-approver", "kubernetes.io/kubelet-serving"),
        ("legacy-unknown-approver", "kubernetes.io/legacy-unknown"),
    )
    return [
        *(
            cluster_role(
                f"{prefix}certificatesigningrequests:{kind}",
                allow("create", f"certificatesigningrequests/{kind}", _CERTIFICATES),
            )
            for kind in ("nodeclient", "selfnodeclient")
        ),
        *(
            cluster_role(prefix + name, allow("approve", "signers", _CERTIFICATES, names=signer))
            for name, signer in approvers
        ),
    ]


def _component_roles() -> list[JsonObject]:
    return [
        cluster_role(
            "system:auth-delegator",
            allow("create", "tokenreviews", "authentication.k8s.io"),
            allow("create", "subjectaccessreviews", "authorization.k8s.io"),
        ),
        cluster_role(
            "system:heapster", allow(READ, "events namespaces nodes pods"), allow(READ, "deployments", "extensions")
        ),
        cluster_role("system:kube-aggregator", allow(READ, "endpoints services")),
        cluster_role("system:kube-dns", allow("list watch", "endpoints services")),
        cluster_role(
            "system:kube-controller-manager",
            events(),
            allow("create", "leases", "coordination.k8s.io"),
            allow("get update", "leases", "coordination.k8s.io", names="kube-controller-manager"),
            allow("create", "secrets serviceaccounts"),
            allow("delete", "secrets"),
            allow("get", "configmaps namespaces secrets serviceaccounts"),
            allow("update", "secrets serviceaccounts"),
            allow("create", "tokenreviews", "authentication.k8s.io"),
            allow("create", "subjectaccessreviews", "authorization.k8s.io"),
            allow("list watch", "*", "*"),
            allow("create", "serviceaccounts/token"),
        ),
        cluster_role(
            "system:kube-scheduler",
            events(),
            allow("create", "leases", "coordination.k8s.io"),
            allow(READ_UPDATE.replace("patch ", ""), "leases", "coordination.k8s.io", names="kube-scheduler"),
            allow(READ_WRITE, "leasecandidates", "coordination.k8s.io"),
            allow(READ, "nodes"),
            allow("delete get list watch", "pods"),
            allow("create", "bindings pods/binding"),
            allow("patch update", "pods/status"),
            allow(READ, "replicationcontrollers services"),
            allow(READ, "replicasets", "apps extensions"),
            allow(READ, "statefulsets", "apps"),
            allow(READ, "poddisruptionbudgets", "policy"),
            allow(READ, "persistentvolumeclaims persistentvolumes"),
            allow("create", "tokenreviews", "authentication.k8s.io"),
            allow("create", "subjectaccessreviews", "authorization.k8s.io"),
            allow(READ, "csinodes", _STORAGE),
            allow(READ, "volumeattachments", _STORAGE),
            allow(READ, "namespaces"),
            allow(READ, "csidrivers", _STORAGE),
            allow(READ, "csistoragecapacities", _STORAGE),
            allow(READ, "deviceclasses", _DEVICES),
            allow(READ_UPDATE, "resourceclaims", _DEVICES),
            allow(READ_UPDATE, "resourceclaims/status", _DEVICES),
            allow(READ_UPDATE, "pods/finalizers"),
            allow(READ, "resourceslices", _DEVICES),
            allow("create delete", "resourceclaims", _DEVICES),
            allow("patch update", "resourceclaims/binding", _DEVICES),
        ),
        cluster_role(
            "system:volume-scheduler",
            allow(READ_UPDATE, "persistentvolumes"),
            allow(READ, "storageclasses", _STORAGE),
            allow(READ_UPDATE, "persistentvolumeclaims"),
        ),
        cluster_role(
            "system:persistent-volume-provisioner",
            allow("create delete get list watch", "persistentvolumes"),
            allow("get list update watch", "persistentvolumeclaims"),
            allow(READ, "storageclasses", _STORAGE),
            allow("watch", "events"),
            events(),
        ),
    ]


def _node_roles() -> list[JsonObject]:
    return [
        cluster_role(
            "system:node",
            allow("create", "tokenreviews", "authentication.k8s.io"),
            allow("create", "localsubjectaccessreviews subjectaccessreviews", "authorization.k8s.io"),
            allow(READ, "services"),
            allow("create get list watch", "nodes"),
            allow("patch update", "nodes/status"),
            allow("patch update", "nodes"),
            allow("create patch update", "events"),
            allow(READ, "pods"),
            allow("create delete", "pods"),
            allow("patch update", "pods/status"),
            allow("create", "pods/eviction"),
            allow(READ, "configmaps secrets"),
            allow("get", "persistentvolumeclaims persistentvolumes"),
            allow("get", "endpoints"),
            allow("create get list watch", "certificatesigningrequests", _CERTIFICATES),
            allow("create delete get patch update", "leases", "coordination.k8s.io"),
            allow("get", "volumeattachments", _STORAGE),
            allow("create", "serviceaccounts/token"),
            allow("get patch update", "persistentvolumeclaims/status"),
            allow(READ, "csidrivers", _STORAGE),
            allow("create delete get patch update", "csinodes", _STORAGE),
            allow(READ, "runtimeclasses", "node.k8s.io"),
            allow("get", "resourceclaims", _DEVICES),
            allow("deletecollection", "resourceslices", _DEVICES),
            allow("get", "serviceaccounts"),
        ),
        cluster_role(
            "system:node-bootstrapper", allow("create get list watch", "certificatesigningrequests", _CERTIFICATES)
        ),
        cluster_role("system:node-problem-detector", allow("get", "nodes"), allow("patch", "nodes/status"), events()),
        cluster_role(
            "system:node-proxier",
            allow("list watch", "endpoints services"),
            allow(READ, "nodes"),
            events(),
            allow("list watch", "servicecidrs", "networking.k8s.io"),
            allow("list watch", "endpointslices", "discovery.k8s.io"),
        ),
        cluster_role(
            "system:kubelet-api-admin",
            allow(READ, "nodes"),
            allow("proxy", "nodes"),
            allow("*", "nodes/log nodes/metrics nodes/proxy nodes/stats"),
            allow("*", "nodes/configz nodes/healthz nodes/pods"),
        ),
    ]
