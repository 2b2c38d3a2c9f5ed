"""docs/reference/labels-and-annotations.md: labels, annotations, taints and finalizers that parts read or write.

The table has the meaning of each; a name in the code that it lacks, and a name that no code has, is an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .source import modules, texts_in
from .tables import code, escaped, made_by, table


class Name(NamedTuple):
    """A row. `on`: the kinds of objects. `stems`: what the code has of it, if it composes the name."""

    name: str
    on: str
    meaning: str
    stems: tuple[str, ...] = ()


_METALLB = ("metallb.io/", "metallb.universe.tf/")

LABELS: Sequence[Name] = (
    Name(
        "kubernetes.io/hostname",
        "Node, Lease",
        "written by the kubelet: the node's name; on the Lease of an API server its host",
    ),
    Name("kubernetes.io/os", "Node", "written by the kubelet: `linux`", ()),
    Name("kubernetes.io/arch", "Node", "written by the kubelet: `amd64`, `arm64`"),
    Name("beta.kubernetes.io/os", "Node", "written by the kubelet, for old selectors"),
    Name("beta.kubernetes.io/arch", "Node", "written by the kubelet, for old selectors"),
    Name(
        "node.kubernetes.io/instance-type",
        "Node",
        "may be written by the node itself, as all labels of this list that have `node` or `topology` in their names",
    ),
    Name("beta.kubernetes.io/instance-type", "Node", "the older name"),
    Name(
        "topology.kubernetes.io/zone",
        "Node",
        "zone: read by `trafficDistribution`, topology hints, the scheduler and the eviction of nodes",
    ),
    Name("topology.kubernetes.io/region", "Node", "region: read by the scheduler and the eviction of nodes"),
    Name("failure-domain.beta.kubernetes.io/zone", "Node", "the older name of the zone"),
    Name("failure-domain.beta.kubernetes.io/region", "Node", "the older name of the region"),
    Name(
        "node-role.kubernetes.io/control-plane",
        "Node",
        "a node without a part in topology hints; `kubectl get nodes` shows every `node-role.kubernetes.io/ROLE`",
    ),
    Name("node-role.kubernetes.io/master", "Node", "the older name"),
    Name("kubernetes.io/role", "Node", "shown by `kubectl get nodes`, too"),
    Name(
        "node.kubernetes.io/exclude-from-external-load-balancers",
        "Node",
        "speakers of this node announce no load-balancer address",
    ),
    Name("node.kubernetes.io/exclude-disruption", "Node", "does not count when a zone is judged to be disrupted"),
    Name(
        "bridgehead.io/proxy",
        "Node",
        "`true`: Bridgehead's proxy serves it; `cleanup`: on the way back ([Real cluster](../real-cluster.md))",
    ),
    Name("kubernetes.io/metadata.name", "Namespace", "written by the API server: the namespace's name"),
    Name(
        "pod-security.kubernetes.io/LEVEL",
        "Namespace",
        "`enforce`, `audit`, `warn` and their versions: levels of Pod Security",
        ("pod-security.kubernetes.io/",),
    ),
    Name(
        "resource.kubernetes.io/admin-access",
        "Namespace",
        "`true`: its ResourceClaims may ask for administrators' access",
    ),
    Name(
        "service.kubernetes.io/service-proxy-name", "Service", "another proxy serves it: this one makes no rules for it"
    ),
    Name(
        "service.kubernetes.io/headless",
        "EndpointSlice, Endpoints",
        "written by the controllers: the Service is headless",
    ),
    Name("kubernetes.io/service-name", "EndpointSlice", "the Service to which the slice belongs"),
    Name(
        "endpointslice.kubernetes.io/managed-by",
        "EndpointSlice",
        "written by its controller; slices of others are served and left alone",
    ),
    Name("endpointslice.kubernetes.io/skip-mirror", "Endpoints", "`true`: not mirrored to EndpointSlices"),
    Name("endpoints.kubernetes.io/managed-by", "Endpoints", "written by the endpoints controller"),
    Name("ipaddress.kubernetes.io/ip-family", "IPAddress", "written by the API server: `IPv4`, `IPv6`"),
    Name("ipaddress.kubernetes.io/managed-by", "IPAddress", "written by the API server: `ipallocator`"),
    Name(
        "statefulset.kubernetes.io/pod-name",
        "Pod",
        "written for pods of a StatefulSet: a Service can select one pod by it",
    ),
    Name("apps.kubernetes.io/pod-index", "Pod", "written for pods of a StatefulSet: the ordinal"),
    Name(
        "controller.kubernetes.io/hash",
        "ControllerRevision",
        "written by the controllers of StatefulSets and DaemonSets",
    ),
    Name("batch.kubernetes.io/controller-uid", "Job, Pod", "written by the API server and the job controller"),
    Name("batch.kubernetes.io/job-name", "Job, Pod", "written by the API server and the job controller"),
    Name("batch.kubernetes.io/job-completion-index", "Pod", "written for indexed Jobs, also as an annotation"),
    Name(
        "kubernetes.io/legacy-token-last-used",
        "Secret",
        "written by the API server: the day on which a token Secret was used last",
    ),
    Name("kubernetes.io/legacy-token-invalid-since", "Secret", "read by the API server: the token is refused"),
    Name("apiserver.kubernetes.io/identity", "Lease", "written by the API server: `kube-apiserver`"),
    Name(
        "kubernetes.io/bootstrapping",
        "ClusterRole, ClusterRoleBinding and others",
        "written by the API server: `rbac-defaults`",
    ),
    Name(
        "rbac.authorization.k8s.io/aggregate-to-ROLE",
        "ClusterRole",
        "adds its rules to `admin`, `edit` or `view`",
        ("rbac.authorization.k8s.io/aggregate-to-",),
    ),
    Name("kube-aggregator.kubernetes.io/automanaged", "APIService", "written by the API server for its own groups"),
    Name(
        "app.kubernetes.io/name",
        "Pod",
        "read by the balancer, to find MetalLB or OpenELB beside it; by `doctor`, as a common key of selectors",
    ),
    Name("app.kubernetes.io/component", "Pod", "read by `doctor`, as a common key of selectors"),
    Name("app.kubernetes.io/instance", "Pod", "kept by `record --redact`"),
    Name("app.kubernetes.io/part-of", "ClusterRole", "written on Bridgehead's own roles"),
    Name(
        "app.kubernetes.io/managed-by",
        "CustomResourceDefinition",
        "written by the balancer on MetalLB's definitions, so that `helm install metallb` adopts them",
    ),
    Name("metallb.io/service-name", "ServiceL2Status, ServiceBGPStatus", "written by the speakers"),
    Name("metallb.io/service-namespace", "ServiceL2Status, ServiceBGPStatus", "written by the speakers"),
    Name("metallb.io/node", "ServiceL2Status, ServiceBGPStatus", "written by the speakers"),
    Name("metallb.io/node-name", "ConfigurationState", "written by the balancer"),
    Name("metallb.io/component-type", "ConfigurationState", "written by the balancer: `controller`, `speaker`"),
    Name(
        "bridgehead.io/deletes-volume",
        "Pod",
        "written by the lab: the pod deletes the directory of a volume of the class `standard`",
    ),
    Name("bridgehead.io/test", "Namespace", "written by the plugin for pytest"),
    Name("bridgehead.io/tour", "Namespace", "written by `bridgehead tour`"),
)

ANNOTATIONS: Sequence[Name] = (
    Name("service.kubernetes.io/topology-mode", "Service", "`Auto`: endpoints get hints for zones"),
    Name("service.kubernetes.io/topology-aware-hints", "Service", "the older name"),
    Name(
        "service.beta.kubernetes.io/load-balancer-source-ranges",
        "Service",
        "validated as `spec.loadBalancerSourceRanges` is, which alone acts",
    ),
    Name(
        "metallb.io/address-pool",
        "Service",
        "pool of the address; also with `metallb.universe.tf/`",
        (*_METALLB, "address-pool"),
    ),
    Name(
        "metallb.io/loadBalancerIPs",
        "Service",
        "addresses, with commas between them; also with `metallb.universe.tf/`",
        (*_METALLB, "loadBalancerIPs"),
    ),
    Name(
        "metallb.io/allow-shared-ip",
        "Service",
        "Services with the same value may share an address; also with `metallb.universe.tf/`",
        (*_METALLB, "allow-shared-ip"),
    ),
    Name(
        "metallb.io/ip-allocated-from-pool",
        "Service",
        "written by the balancer: the pool; also with `metallb.universe.tf/`",
    ),
    Name("metallb.universe.tf/ip-allocated-from-pool", "Service", "the deprecated name"),
    Name("lb.kubesphere.io/v1alpha1", "Service", "`openelb`: an Eip gives the address"),
    Name("eip.openelb.kubesphere.io/v1alpha2", "Service", "name of the Eip; also a label, which the balancer writes"),
    Name("eip.openelb.kubesphere.io/v1alpha1", "Service", "the address that is wanted of the Eip"),
    Name("eip.openelb.kubesphere.io/is-default-eip", "Eip", "`true`: for Services without annotations of OpenELB"),
    Name(
        "bridgehead.io/fallback-pool", "IPAddressPool", "`true`: used only when no other pool and no Eip has an address"
    ),
    Name(
        "bridgehead.io/installed-by",
        "CustomResourceDefinition",
        "written by the balancer: its own definitions, which it keeps up to date",
    ),
    Name(
        "bridgehead.io/kinds-in-use",
        "Secret",
        "written by the balancer: kinds of objects that there are, so that speakers watch no others",
    ),
    Name(
        "bridgehead.io/stepped-back-for",
        "Secret",
        "written by the balancer: the other balancer that runs in the cluster",
    ),
    Name(
        "bridgehead.io/manifest-digest",
        "objects that a lab ships",
        "written by `up`: a newer version replaces what nobody changed",
    ),
    Name(
        "endpoints.kubernetes.io/last-change-trigger-time",
        "EndpointSlice, Endpoints",
        "written by the controllers: the time of the change, for the latency of the proxies",
    ),
    Name(
        "endpoints.kubernetes.io/over-capacity",
        "Endpoints",
        "written by the controllers: `truncated` above 1,000 addresses",
    ),
    Name(
        "control-plane.alpha.kubernetes.io/leader",
        "Endpoints",
        "not mirrored: the object is an old lock of leader election",
    ),
    Name(
        "kubectl.kubernetes.io/last-applied-configuration",
        "all",
        "written by kubectl; read when server-side apply follows client-side apply",
    ),
    Name(
        "kubectl.kubernetes.io/default-container", "Pod", "read by `bridgehead top`: the container of logs and shells"
    ),
    Name(
        "kubectl.kubernetes.io/restartedAt",
        "Deployment, StatefulSet, DaemonSet",
        "written by `bridgehead load --restart`, and by the plugin for pytest to restart the proxies, as by"
        " `kubectl rollout restart`",
    ),
    Name("deployment.kubernetes.io/revision", "Deployment, ReplicaSet", "written by the deployment controller"),
    Name("deployment.kubernetes.io/revision-history", "ReplicaSet", "written by the deployment controller"),
    Name("deployment.kubernetes.io/desired-replicas", "ReplicaSet", "written by the deployment controller"),
    Name("deployment.kubernetes.io/max-replicas", "ReplicaSet", "written by the deployment controller"),
    Name(
        "controller.kubernetes.io/pod-deletion-cost",
        "Pod",
        "pods with lower costs are deleted first when a ReplicaSet shrinks",
    ),
    Name("batch.kubernetes.io/cronjob-scheduled-timestamp", "Job", "written by the cronjob controller"),
    Name("batch.kubernetes.io/job-index-failure-count", "Pod", "written by the job controller"),
    Name("batch.kubernetes.io/job-index-ignored-failure-count", "Pod", "written by the job controller"),
    Name(
        "autoscaling.alpha.kubernetes.io/FIELD",
        "HorizontalPodAutoscaler",
        "written by the API server: fields of autoscaling/v2 that v1 lacks",
        ("autoscaling.alpha.kubernetes.io/",),
    ),
    Name("kubernetes.io/ingress.class", "Ingress", "stored, with a warning; no part serves Ingresses"),
    Name("ingressclass.kubernetes.io/is-default-class", "IngressClass", "`true`: for Ingresses without a class"),
    Name("storageclass.kubernetes.io/is-default-class", "StorageClass", "`true`: for claims without a class"),
    Name("storageclass.beta.kubernetes.io/is-default-class", "StorageClass", "the older name"),
    Name(
        "volume.beta.kubernetes.io/storage-class",
        "PersistentVolumeClaim, PersistentVolume",
        "the older form of `storageClassName`",
    ),
    Name("volume.beta.kubernetes.io/storage-provisioner", "PersistentVolumeClaim", "written by the volume binder"),
    Name("volume.kubernetes.io/storage-provisioner", "PersistentVolumeClaim", "written by the volume binder"),
    Name(
        "volume.kubernetes.io/selected-node", "PersistentVolumeClaim", "written by the scheduler: node of the first pod"
    ),
    Name("pv.kubernetes.io/bind-completed", "PersistentVolumeClaim", "written by the volume binder"),
    Name(
        "pv.kubernetes.io/bound-by-controller",
        "PersistentVolumeClaim, PersistentVolume",
        "written by the volume binder",
    ),
    Name(
        "pv.kubernetes.io/provisioned-by",
        "PersistentVolume",
        "provisioner of the volume; in a lab `bridgehead.io/host-path`",
    ),
    Name("bridgehead.io/host-path", "PersistentVolume, StorageClass", "value of `provisioner`: directories of nodes"),
    Name("storage.alpha.kubernetes.io/migrated-plugins", "CSINode", "written by the kubelet"),
    Name("kubernetes.io/config.mirror", "Pod", "written by the kubelet: mirror pod of a static pod"),
    Name("kubernetes.io/config.source", "Pod", "written by the kubelet: `file`"),
    Name("kubernetes.io/config.hash", "Pod", "written by the kubelet"),
    Name("kubernetes.io/limit-ranger", "Pod", "written by the API server: defaults that a LimitRange set"),
    Name("kubernetes.io/description", "ConfigMap", "written on `kube-root-ca.crt`"),
    Name("kubernetes.io/service-account.name", "Secret", "ServiceAccount of a token Secret"),
    Name("kubernetes.io/service-account.uid", "Secret", "written by the token controller"),
    Name("kubernetes.io/enforce-mountable-secrets", "ServiceAccount", "a deprecation warning; it does not act"),
    Name(
        "rbac.authorization.kubernetes.io/autoupdate",
        "ClusterRole, ClusterRoleBinding",
        "`false`: default roles are left as they are",
    ),
    Name(
        "apf.kubernetes.io/autoupdate-spec",
        "FlowSchema, PriorityLevelConfiguration",
        "`false`: default objects are left as they are",
    ),
    Name(
        "container.apparmor.security.beta.kubernetes.io/CONTAINER",
        "Pod",
        "validated; a node without AppArmor refuses the pod",
        ("container.apparmor.security.beta.kubernetes.io/",),
    ),
    Name(
        "container.seccomp.security.alpha.kubernetes.io/CONTAINER",
        "Pod",
        "has no effect, as in Kubernetes since 1.27",
        ("container.seccomp.security.alpha.kubernetes.io/",),
    ),
    Name("seccomp.security.alpha.kubernetes.io/pod", "Pod", "has no effect, as in Kubernetes since 1.27"),
    Name("scheduler.alpha.kubernetes.io/critical-pod", "Pod", "a warning: it has no effect"),
    Name("security.alpha.kubernetes.io/sysctls", "Pod", "a warning: it has no effect"),
    Name("security.alpha.kubernetes.io/unsafe-sysctls", "Pod", "a warning: it has no effect"),
    Name(
        "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match",
        "PodDisruptionBudget",
        "in objects that etcd has from policy/v1beta1",
    ),
)

TAINTS: Sequence[Name] = (
    Name(
        "node.kubernetes.io/not-ready",
        "Node",
        "set while the node is not ready; pods are evicted after their `tolerationSeconds`, 300 s by default",
    ),
    Name("node.kubernetes.io/unreachable", "Node", "set while the kubelet sends no heartbeats"),
    Name("node.kubernetes.io/unschedulable", "Node", "set on a node that `kubectl cordon` made unschedulable"),
    Name("node.kubernetes.io/memory-pressure", "Node", "set while the node has the condition"),
    Name("node.kubernetes.io/disk-pressure", "Node", "set while the node has the condition"),
    Name("node.kubernetes.io/pid-pressure", "Node", "set while the node has the condition"),
    Name("node.kubernetes.io/network-unavailable", "Node", "set while the node has the condition"),
    Name("node.kubernetes.io/out-of-service", "Node", "set by hand: the pods of a dead node are deleted at once"),
)

FINALIZERS: Sequence[Name] = (
    Name("kubernetes.io/pvc-protection", "PersistentVolumeClaim", "while a pod uses the claim"),
    Name("kubernetes.io/pv-protection", "PersistentVolume", "while the volume is bound"),
    Name(
        "external-provisioner.volume.kubernetes.io/finalizer",
        "PersistentVolume",
        "until the directory of a volume of the class `standard` is deleted",
    ),
    Name("batch.kubernetes.io/job-tracking", "Pod", "until the Job has counted the pod"),
    Name("networking.k8s.io/service-cidr-finalizer", "ServiceCIDR", "while addresses of the range are used"),
    Name("finalizer.lb.kubesphere.io/v1alpha1", "Service", "OpenELB's, written by the balancer"),
    Name("finalizer.ipam.kubesphere.io/v1alpha1", "Eip", "OpenELB's, written by the balancer"),
)

GROUPS: Mapping[str, Sequence[Name]] = {
    "Labels": LABELS,
    "Annotations": ANNOTATIONS,
    "Taints": TAINTS,
    "Finalizers": FINALIZERS,
}

_NAME = re.compile(
    r"(?<![\w.@/-])(?:[a-z0-9-]+\.)*(?:kubernetes\.io|k8s\.io|bridgehead\.io|metallb\.universe\.tf|metallb\.io|kubesphere\.io)/"
    r"[A-Za-z0-9_.-]*"
)
# Names in the code that are no label, annotation, taint or finalizer.
_OTHERS = re.compile(
    "|".join(
        (
            r".*/v\d+(alpha\d+|beta\d+)?",  # versions of APIs
            r"kubernetes\.io/(basic-auth|dockercfg|dockerconfigjson|ssh-auth|tls|service-account-token)",  # of Secrets
            r"kubernetes\.io/(kube-apiserver-client(-kubelet)?|kubelet-serving|legacy-unknown)",  # signers
            r"kubernetes\.io/(configmap|csi|downward-api|empty-dir|host-path|image|local-volume|projected|secret)",
            r"kubernetes\.io/no-provisioner",
            r"(authentication|authorization|audit)\.(kubernetes|k8s)\.io/.*|k8s\.io/deprecated",  # of the audit log
            r".*\.admission\.k8s\.io/.*",  # the same
            r"(apidiscovery|apiextensions|apiregistration|apiserver\.config|meta|storageclass\.storage)\.k8s\.io/.*",
            r"k8s\.io/(apimachinery|initial-events-end)|(registry|git|sigs|endpointslice\.discovery)\.k8s\.io/.*",
            r"kubernetes\.io/(docs|serviceaccount|name|job-controller)?|pod-security\.kubernetes\.io/.*",
            r"bridgehead\.io/(LoadBalancerAddress|servers)|metallb\.(io|universe\.tf)/|node-role\.kubernetes\.io/",
        )
    )
)


def names_in_code() -> set[str]:
    """Return all names of this form in the code, without a minus of `kubectl label` at their end."""
    return {
        name.rstrip("-.") if not name.endswith("to-") else name
        for module in modules()
        for text in texts_in(module.text)
        for name in _NAME.findall(text)
    }


def check() -> None:
    """Raise ValueError when the table and the code differ."""
    found = names_in_code()
    rows = [row for group in GROUPS.values() for row in group]
    listed = {stem for row in rows for stem in row.stems or (row.name,)} | {row.name for row in rows}
    texts = "\n".join(module.text for module in modules())
    if missing := {name for name in found - listed if not _OTHERS.fullmatch(name)}:
        raise ValueError(f"documentation/object_names.py lacks {sorted(missing)}")
    ours = {"bridgehead.io/proxy"}  # the chart's, which no code reads
    if unknown := {row.name for row in rows if not all(stem in texts for stem in row.stems or (row.name,))} - ours:
        raise ValueError(f"no code has {sorted(unknown)}")


def render_page() -> str:
    """Return the page."""
    check()
    parts = [
        "# Labels and annotations\n\n",
        made_by("object_names"),
        "What the parts read or write. All others are kept, and have no effect.\n\n",
    ]
    for title, rows in GROUPS.items():
        cells = ((code(row.name), row.on, escaped(row.meaning)) for row in sorted(rows, key=lambda row: row.name))
        parts += [f"## {title}\n\n", table(("name", "on", "meaning"), cells), "\n"]
    return "".join(parts).rstrip("\n") + "\n"
