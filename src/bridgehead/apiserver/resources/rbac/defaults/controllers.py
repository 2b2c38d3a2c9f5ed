"""Default ClusterRoles of Kubernetes' controllers, each bound to a service account of its name in kube-system.

Pure: no I/O, no clock, no randomness. Source: Kubernetes plugin/pkg/auth/authorizer/rbac/bootstrappolicy/
controller_policy.go, with the feature gates at the defaults of 1.36.
"""

from __future__ import annotations

from bridgehead.apiserver.resource import JsonObject

from .notation import READ, account, allow, bind, cluster_role, events

PREFIX = "system:controller:"
_ALL_BUT_COLLECTION = "create delete get list patch update watch"
_CERTIFICATES, _STORAGE, _DEVICES = "certificates.k8s.io", "storage.k8s.io", "resource.k8s.io"
_NETWORKING, _ADMISSION = "networking.k8s.io", "admissionregistration.k8s.io"


def controller_roles() -> list[JsonObject]:
    rules = _rules_of_workloads() | _rules_of_the_network() | _rules_of_storage() | _rules_of_the_cluster()
    return [cluster_role(PREFIX + name, *rules[name]) for name in sorted(rules)]


def controller_role_bindings(roles: list[JsonObject]) -> list[JsonObject]:
    names = (role["metadata"]["name"] for role in roles)
    return [bind(name, account(name.removeprefix(PREFIX))) for name in names]


def _rules_of_workloads() -> dict[str, list[JsonObject]]:
    pods = allow("create delete list patch watch", "pods")
    return {
        "cronjob-controller": [
            allow("get list update watch", "cronjobs", "batch"),
            allow(_ALL_BUT_COLLECTION, "jobs", "batch"),
            allow("update", "cronjobs/status", "batch"),
            allow("update", "cronjobs/finalizers", "batch"),
            allow("delete list watch", "pods"),
            events(),
        ],
        "daemon-set-controller": [
            allow(READ, "daemonsets", "apps extensions"),
            allow("update", "daemonsets/status", "apps extensions"),
            allow("update", "daemonsets/finalizers", "apps extensions"),
            allow("list watch", "nodes"),
            pods,
            allow("create", "pods/binding"),
            allow(_ALL_BUT_COLLECTION, "controllerrevisions", "apps"),
            events(),
        ],
        "deployment-controller": [
            allow("get list update watch", "deployments", "apps extensions"),
            allow("update", "deployments/status", "apps extensions"),
            allow("update", "deployments/finalizers", "apps extensions"),
            allow(_ALL_BUT_COLLECTION, "replicasets", "apps extensions"),
            allow("get list update watch", "pods"),
            events(),
        ],
        "disruption-controller": [
            allow(READ, "deployments", "apps extensions"),
            allow(READ, "replicasets", "apps extensions"),
            allow(READ, "replicationcontrollers"),
            allow(READ, "poddisruptionbudgets", "policy"),
            allow(READ, "statefulsets", "apps"),
            allow("update", "poddisruptionbudgets/status", "policy"),
            allow("patch update", "pods/status"),
            allow("get", "*/scale", "*"),
            events(),
        ],
        "horizontal-pod-autoscaler": [
            allow(READ, "horizontalpodautoscalers", "autoscaling"),
            allow("update", "horizontalpodautoscalers/status", "autoscaling"),
            allow("get update", "*/scale", "*"),
            allow("list watch", "pods"),
            allow("list watch", "pods", "metrics.k8s.io"),
            allow(READ, "*", "custom.metrics.k8s.io"),
            allow(READ, "*", "external.metrics.k8s.io"),
            events(),
        ],
        "job-controller": [
            allow("get list patch update watch", "jobs", "batch"),
            allow("update", "jobs/status", "batch"),
            allow("update", "jobs/finalizers", "batch"),
            pods,
            events(),
        ],
        "pod-garbage-collector": [
            allow("delete list watch", "pods"),
            allow(READ, "nodes"),
            allow("patch", "pods/status"),
        ],
        "replicaset-controller": [
            allow("get list update watch", "replicasets", "apps extensions"),
            allow("update", "replicasets/status", "apps extensions"),
            allow("update", "replicasets/finalizers", "apps extensions"),
            pods,
            events(),
        ],
        "replication-controller": [
            allow("get list update watch", "replicationcontrollers"),
            allow("update", "replicationcontrollers/status"),
            allow("update", "replicationcontrollers/finalizers"),
            pods,
            events(),
        ],
        "statefulset-controller": [
            allow("list watch", "pods"),
            allow(READ, "statefulsets", "apps"),
            allow("update", "statefulsets/status", "apps"),
            allow("update", "statefulsets/finalizers", "apps"),
            allow("create delete get patch update", "pods"),
            allow(_ALL_BUT_COLLECTION, "controllerrevisions", "apps"),
            allow("create get list watch", "persistentvolumeclaims"),
            allow("delete update", "persistentvolumeclaims"),
            allow("update", "pods/finalizers"),
            events(),
        ],
        "ttl-after-finished-controller": [allow("delete get list watch", "jobs", "batch"), events()],
    }


def _rules_of_the_network() -> dict[str, list[JsonObject]]:
    slices = allow("create delete get list update watch", "endpointslices", "discovery.k8s.io")
    return {
        "endpoint-controller": [
            allow(READ, "pods services"),
            allow("create delete get list update watch", "endpoints"),
            allow("create", "endpoints/restricted"),
            events(),
        ],
        "endpointslice-controller": [
            allow(READ, "nodes pods services"),
            allow("update", "services/finalizers"),
            slices,
            events(),
        ],
        "endpointslicemirroring-controller": [
            allow(READ, "endpoints services"),
            allow("update", "services/finalizers"),
            allow("update", "endpoints/finalizers"),
            slices,
            events(),
        ],
        "route-controller": [allow("list watch", "nodes"), allow("patch", "nodes/status"), events()],
        "service-cidrs-controller": [
            allow("get list patch update watch", "servicecidrs", _NETWORKING),
            allow("patch update", "servicecidrs/finalizers", _NETWORKING),
            allow("patch update", "servicecidrs/status", _NETWORKING),
            allow(READ, "ipaddresses", _NETWORKING),
            events(),
        ],
        "service-controller": [
            allow(READ, "services"),
            allow("patch update", "services/status"),
            allow("list watch", "nodes"),
            events(),
        ],
    }


def _rules_of_storage() -> dict[str, list[JsonObject]]:
    return {
        "attachdetach-controller": [
            allow("list watch", "persistentvolumeclaims persistentvolumes"),
            allow(READ, "nodes"),
            allow("patch update", "nodes/status"),
            allow("list watch", "pods"),
            events(),
            allow("create delete get list watch", "volumeattachments", _STORAGE),
            allow(READ, "csidrivers", _STORAGE),
            allow(READ, "csinodes", _STORAGE),
        ],
        "ephemeral-volume-controller": [
            allow(READ, "pods"),
            allow("update", "pods/finalizers"),
            allow("create get list watch", "persistentvolumeclaims"),
            events(),
        ],
        "expand-controller": [
            allow("get list patch update watch", "persistentvolumes"),
            allow("patch update", "persistentvolumeclaims/status"),
            allow(READ, "persistentvolumeclaims"),
            events(),
        ],
        "persistent-volume-binder": [
            allow("create delete get list update watch", "persistentvolumes"),
            allow("update", "persistentvolumes/status"),
            allow("get list update watch", "persistentvolumeclaims"),
            allow("update", "persistentvolumeclaims/status"),
            allow("create delete get list watch", "pods"),
            allow(READ, "storageclasses", _STORAGE),
            allow("list watch", "nodes"),
            events(),
            allow("watch", "events"),
        ],
        "pv-protection-controller": [allow("get list update watch", "persistentvolumes"), events()],
        "pvc-protection-controller": [
            allow("get list update watch", "persistentvolumeclaims"),
            allow("update", "persistentvolumeclaims/status"),
            allow(READ, "pods"),
            events(),
        ],
        "selinux-warning-controller": [
            events(),
            allow(READ, "persistentvolumes"),
            allow(READ, "persistentvolumeclaims"),
            allow(READ, "pods"),
            allow(READ, "csidrivers", _STORAGE),
        ],
        "volumeattributesclass-protection-controller": [
            allow(READ, "persistentvolumeclaims"),
            allow(READ, "persistentvolumes"),
            allow("get list update watch", "volumeattributesclasses", _STORAGE),
            events(),
        ],
    }


def _rules_of_the_cluster() -> dict[str, list[JsonObject]]:
    signers = (
        "kubernetes.io/kube-apiserver-client kubernetes.io/kube-apiserver-client-kubelet kubernetes.io/kubelet-serving"
        " kubernetes.io/legacy-unknown"
    )
    return {
        "certificate-controller": [
            allow("delete get list watch", "certificatesigningrequests", _CERTIFICATES),
            allow("update", "certificatesigningrequests/approval certificatesigningrequests/status", _CERTIFICATES),
            allow("approve", "signers", _CERTIFICATES, names="kubernetes.io/kube-apiserver-client-kubelet"),
            allow("sign", "signers", _CERTIFICATES, names=signers),
            allow("create", "subjectaccessreviews", "authorization.k8s.io"),
            events(),
        ],
        "clusterrole-aggregation-controller": [
            allow("escalate get list patch update watch", "clusterroles", "rbac.authorization.k8s.io"),
        ],
        "device-taint-eviction-controller": [
            allow("delete get list watch", "pods"),
            allow("patch update", "pods/status"),
            allow(READ, "resourceclaims", _DEVICES),
            allow(READ, "resourceslices", _DEVICES),
            allow(READ, "deviceclasses", _DEVICES),
            events(),
        ],
        "generic-garbage-collector": [allow("delete get list patch update watch", "*", "*"), events()],
        "legacy-service-account-token-cleaner": [
            allow("get", "configmaps", names="kube-apiserver-legacy-service-account-token-tracking"),
            allow("delete patch", "secrets"),
        ],
        "namespace-controller": [
            allow("delete get list watch", "namespaces"),
            allow("update", "namespaces/finalize namespaces/status"),
            allow("delete deletecollection get list watch", "*", "*"),
        ],
        "node-controller": [
            allow("delete get list patch update watch", "nodes"),
            allow("patch update", "nodes/status"),
            allow("patch update", "pods/status"),
            allow("delete get list watch", "pods"),
            events(),
        ],
        "resource-claim-controller": [
            allow(READ, "pods"),
            allow("update", "pods/finalizers"),
            allow("create delete get list watch", "resourceclaims", _DEVICES),
            allow("patch update", "resourceclaims resourceclaims/status", _DEVICES),
            allow("patch update", "pods/status"),
            events(),
            allow("patch update", "resourceclaims/binding", _DEVICES),
        ],
        "resourcequota-controller": [
            allow("list watch", "*", "*"),
            allow("update", "resourcequotas/status"),
            events(),
        ],
        "root-ca-cert-publisher": [allow("create update", "configmaps"), events()],
        "service-account-controller": [allow("create", "serviceaccounts"), events()],
        "ttl-controller": [allow("list patch update watch", "nodes"), events()],
        "validatingadmissionpolicy-status-controller": [
            allow(READ, "validatingadmissionpolicies", _ADMISSION),
            allow("get patch update", "validatingadmissionpolicies/status", _ADMISSION),
            events(),
        ],
    }
