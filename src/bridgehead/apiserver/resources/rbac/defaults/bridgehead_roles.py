"""Rights of this project's own parts that no default role of Kubernetes gives. Names begin with `bridgehead:`, but for
the DNS, which has those of kubeadm's CoreDNS.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.apiserver.resource import JsonObject

from .notation import READ, account, allow, bind, cluster_role, group, role, user

_SYSTEM = "kube-system"
_LABELS = {"app.kubernetes.io/part-of": "bridgehead"}
_CONTROLLERS, _DNS, _PROGRESS = "bridgehead:kube-controller-manager", "system:coredns", "bridgehead:proxy-progress"
_HOST_PORTS = "bridgehead:proxy-host-ports"
_CERTIFICATES = "certificates.k8s.io"
_SIGNERS = (
    "kubernetes.io/kube-apiserver-client kubernetes.io/kube-apiserver-client-kubelet kubernetes.io/kubelet-serving"
    " kubernetes.io/legacy-unknown"
)


def own_objects() -> list[JsonObject]:
    """Return the roles, and then their bindings."""
    progress = role(_SYSTEM, _PROGRESS, allow("create patch", "leases", "coordination.k8s.io"), labels=_LABELS)
    return [
        # All controllers share one user. The first rule is that of the garbage collector and of the namespace
        # controller. Verb "*" would include `impersonate` and `escalate`.
        cluster_role(
            _CONTROLLERS,
            allow("delete deletecollection get list patch update watch", "*", "*"),
            allow("create", "configmaps endpoints endpoints/restricted pods pods/binding serviceaccounts"),
            allow("create", "persistentvolumeclaims persistentvolumes"),
            allow("create", "controllerrevisions replicasets", "apps"),
            allow("create", "jobs", "batch"),
            allow("create", "endpointslices", "discovery.k8s.io"),
            allow("create", "subjectaccessreviews", "authorization.k8s.io"),
            allow("approve", "signers", _CERTIFICATES, names="kubernetes.io/kube-apiserver-client-kubelet"),
            allow("sign", "signers", _CERTIFICATES, names=_SIGNERS),
            labels=_LABELS,
        ),
        cluster_role(
            _DNS,
            allow(READ, "endpoints namespaces pods services"),
            allow(READ, "endpointslices", "discovery.k8s.io"),
            labels=_LABELS,
        ),
        # Kubernetes leaves host ports to CNI plug-ins, here the proxies map them.
        cluster_role(_HOST_PORTS, allow(READ, "pods"), labels=_LABELS),
        # The Leases in which proxies publish the changes that their kernels have.
        progress,
        bind(_CONTROLLERS, user("system:kube-controller-manager"), labels=_LABELS),
        bind(_DNS, account("coredns"), labels=_LABELS),
        # As ClusterRoleBinding kubeadm:node-autoapprove-certificate-rotation.
        bind(
            "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
            group("system:nodes"),
            name="bridgehead:node-autoapprove-certificate-rotation",
            labels=_LABELS,
        ),
        # As ClusterRoleBinding kubeadm:node-proxier: the proxies are pods.
        bind("system:node-proxier", account("kube-proxy"), name="bridgehead:node-proxier", labels=_LABELS),
        bind(_HOST_PORTS, account("kube-proxy"), labels=_LABELS),
        bind(progress, user("system:kube-proxy"), account("kube-proxy"), namespace=_SYSTEM, labels=_LABELS),
    ]
