"""docs/compatibility.md: kinds and fields: what acts, what is stored, what is refused.

The kinds are those of the API server's table. A field acts if a part reads it: the types of `bridgehead.objects` have
the fields that parts read and no others. `NOTES` has what differs; a row for a field that does not exist is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from bridgehead.apiserver.bodies.definitions import VERSION, load_definitions
from bridgehead.apiserver.resource import Resource
from bridgehead.apiserver.resources import build_table
from bridgehead.objects import core, endpoint_slices

from .source import ROOT
from .tables import code, codes, escaped, made_by, table

ACTS, STORED = "acts", "stored"

# The state of each kind and what it does, by the name of its resource.
KINDS: Mapping[str, tuple[str, str]] = {
    "namespaces": (ACTS, "emptied when deleted; levels of Pod Security by labels"),
    "nodes": (ACTS, "health, taints, eviction; the kubelet writes addresses, capacity, images"),
    "pods": (
        ACTS,
        "scheduled and run: fields below. `exec`, `attach`, `port-forward`, `logs`, `debug`, resize in place, eviction",
    ),
    "services": (ACTS, "every type; fields below"),
    "endpoints": (ACTS, "written for Services with a selector; others are mirrored to EndpointSlices"),
    "events": (
        ACTS,
        "written by all parts, [reasons](reference/events.md); deleted after an hour; also as events.k8s.io/v1",
    ),
    "configmaps": (ACTS, "volumes, `env`, `envFrom`; the Corefile of a lab's DNS is one"),
    "componentstatuses": (ACTS, "read only, deprecated, as in Kubernetes"),
    "secrets": (ACTS, "volumes, `env`, pull secrets, token Secrets; encryption at rest by EncryptionConfiguration"),
    "serviceaccounts": (ACTS, "`default` of each namespace, tokens, `imagePullSecrets`"),
    "resourcequotas": (ACTS, "charged in the commit of the object, so they are exact; scopes"),
    "limitranges": (ACTS, "defaults, minima, maxima, ratios"),
    "deployments.apps": (ACTS, "rolling updates that lose no connection, `Recreate`, history, pause, undo"),
    "replicasets.apps": (ACTS, ""),
    "daemonsets.apps": (ACTS, "rolling updates with `maxSurge` and `maxUnavailable`, `OnDelete`"),
    "statefulsets.apps": (ACTS, "ordered and parallel pods, claims and their retention, partitions, `maxUnavailable`"),
    "controllerrevisions.apps": (ACTS, "written by the controllers of StatefulSets and DaemonSets"),
    "podtemplates": (STORED, "as in Kubernetes, where nothing acts on it either"),
    "replicationcontrollers": (ACTS, ""),
    "horizontalpodautoscalers.autoscaling": (ACTS, "by the metrics of an aggregated API; a lab has none of its own"),
    "jobs.batch": (ACTS, "completions, indexes, back-off, failure and success policies, suspension, deadlines, TTL"),
    "cronjobs.batch": (ACTS, "time zones, concurrency, history"),
    "endpointslices.discovery.k8s.io": (ACTS, "fields below"),
    "leases.coordination.k8s.io": (
        ACTS,
        "heartbeats of nodes, leader election, progress of proxies, identity of API servers",
    ),
    "events.events.k8s.io": (ACTS, "the same objects as Events of v1"),
    "ingresses.networking.k8s.io": (STORED, "a warning says so; a controller in pods can act on them"),
    "ingressclasses.networking.k8s.io": (ACTS, "the default class is set on new Ingresses"),
    "networkpolicies.networking.k8s.io": (
        STORED,
        "a warning says so: nothing enforces them; `doctor` names what they would forbid",
    ),
    "servicecidrs.networking.k8s.io": (ACTS, "ranges of cluster IPs, added and removed while the cluster runs"),
    "ipaddresses.networking.k8s.io": (ACTS, "one for each cluster IP, in the commit of its Service"),
    "runtimeclasses.node.k8s.io": (ACTS, "overhead and scheduling; a handler that no node has keeps the pod waiting"),
    "priorityclasses.scheduling.k8s.io": (ACTS, "order of scheduling, preemption"),
    "poddisruptionbudgets.policy": (ACTS, "evictions, preemption"),
    "persistentvolumes": (
        ACTS,
        "`hostPath` and `local`; all other sources are stored, and a pod with one waits (`FailedMount`)",
    ),
    "persistentvolumeclaims": (
        ACTS,
        "binding, protection, resizing with the class `standard`; an Event refuses a claim with a data source",
    ),
    "storageclasses.storage.k8s.io": (
        ACTS,
        "provisioner `bridgehead.io/host-path`, `WaitForFirstConsumer`, `allowedTopologies`, the default class",
    ),
    "volumeattachments.storage.k8s.io": (STORED, "there are no CSI drivers"),
    "volumeattributesclasses.storage.k8s.io": (STORED, "there are no CSI drivers"),
    "csidrivers.storage.k8s.io": (STORED, "there are no CSI drivers"),
    "csinodes.storage.k8s.io": (STORED, "written by the kubelet; there are no CSI drivers"),
    "csistoragecapacities.storage.k8s.io": (STORED, "there are no CSI drivers"),
    "deviceclasses.resource.k8s.io": (STORED, "nothing allocates devices"),
    "resourceclaims.resource.k8s.io": (STORED, "nothing allocates devices"),
    "resourceclaimtemplates.resource.k8s.io": (STORED, "nothing allocates devices"),
    "resourceslices.resource.k8s.io": (STORED, "nothing allocates devices"),
    "flowschemas.flowcontrol.apiserver.k8s.io": (ACTS, "priority and fairness of requests"),
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": (ACTS, "priority and fairness of requests"),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": (
        ACTS,
        "called at the endpoints of their Service, or by URL",
    ),
    "validatingwebhookconfigurations.admissionregistration.k8s.io": (
        ACTS,
        "called at the endpoints of their Service, or by URL",
    ),
    "validatingadmissionpolicies.admissionregistration.k8s.io": (ACTS, "CEL"),
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": (ACTS, "CEL"),
    "mutatingadmissionpolicies.admissionregistration.k8s.io": (ACTS, "CEL"),
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io": (ACTS, "CEL"),
    "roles.rbac.authorization.k8s.io": (ACTS, "RBAC, with escalation checks"),
    "clusterroles.rbac.authorization.k8s.io": (ACTS, "Kubernetes' default roles; aggregation"),
    "rolebindings.rbac.authorization.k8s.io": (ACTS, ""),
    "clusterrolebindings.rbac.authorization.k8s.io": (ACTS, ""),
    "apiservices.apiregistration.k8s.io": (ACTS, "aggregated APIs"),
    "certificatesigningrequests.certificates.k8s.io": (ACTS, "Kubernetes' four signers"),
}

# Kinds that are no entries of the table: made of definitions, or answered without being stored.
OTHER_KINDS = (
    (
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        ACTS,
        "structural schemas, CEL rules, defaults, pruning, versions, conversion, `scale`, `status`, selectable fields",
    ),
    ("authentication.k8s.io/v1", "TokenReview, SelfSubjectReview", ACTS, ""),
    ("authorization.k8s.io/v1", "SubjectAccessReview and its siblings", ACTS, ""),
    ("v1, policy/v1, autoscaling/v1", "Binding, Eviction, Scale, TokenRequest", ACTS, "as subresources"),
)

_CORE = "io.k8s.api.core.v1."
_DISCOVERY = "io.k8s.api.discovery.v1."
# A heading, the name of a definition, and the type that has the fields which parts read.
FIELDS: tuple[tuple[str, str, type], ...] = (
    ("Service: spec", f"{_CORE}ServiceSpec", core.ServiceSpec),
    ("Service: spec.ports", f"{_CORE}ServicePort", core.ServicePort),
    ("Service: status", f"{_CORE}ServiceStatus", core.ServiceStatus),
    ("EndpointSlice", f"{_DISCOVERY}EndpointSlice", endpoint_slices.EndpointSlice),
    ("EndpointSlice: endpoints", f"{_DISCOVERY}Endpoint", endpoint_slices.Endpoint),
    ("EndpointSlice: ports", f"{_DISCOVERY}EndpointPort", core.EndpointPort),
    ("Pod: spec", f"{_CORE}PodSpec", core.PodSpec),
    ("Pod: spec.securityContext", f"{_CORE}PodSecurityContext", core.PodSecurityContext),
    ("Pod: spec.containers", f"{_CORE}Container", core.Container),
    ("Pod: spec.containers.resources", f"{_CORE}ResourceRequirements", core.ResourceRequirements),
    ("Pod: spec.containers.securityContext", f"{_CORE}SecurityContext", core.SecurityContext),
    ("Pod: spec.containers.volumeMounts", f"{_CORE}VolumeMount", core.VolumeMount),
    ("Pod: probes", f"{_CORE}Probe", core.Probe),
    ("Pod: lifecycle", f"{_CORE}Lifecycle", core.Lifecycle),
    ("Pod: spec.volumes", f"{_CORE}Volume", core.Volume),
)
_REFUSED = "refused by the node"
_WAITS = "the pod waits (`FailedMount`)"
# A note about a field, by heading and name, with its state if that is not by the rule.
NOTES: Mapping[tuple[str, str], tuple[str, str]] = {
    ("Service: spec", "externalIPs"): ("", "addresses that others have are not served, with an Event"),
    ("Service: spec", "externalName"): ("", "a CNAME; an address as a name is no record"),
    ("Service: spec", "loadBalancerClass"): ("", "a class of another balancer is left to that one"),
    ("Service: spec", "loadBalancerIP"): ("", "the address that is wanted of the pool"),
    ("Service: spec", "loadBalancerSourceRanges"): ("", "of one family only: clients of the other one are refused"),
    ("Service: spec", "allocateLoadBalancerNodePorts"): ("", "by the API server"),
    ("Service: spec", "trafficDistribution"): (
        "",
        "`PreferSameZone`, `PreferSameNode`, `PreferClose`: as hints of endpoints",
    ),
    ("Service: spec.ports", "appProtocol"): ("", "copied to EndpointSlices; nothing here reads it"),
    ("EndpointSlice", "addressType"): ("", "IPv4, IPv6; FQDN is stored"),
    ("EndpointSlice", "apiVersion"): (ACTS, ""),
    ("EndpointSlice", "kind"): (ACTS, ""),
    ("EndpointSlice: endpoints", "deprecatedTopology"): (STORED, "of v1beta1"),
    ("EndpointSlice: ports", "appProtocol"): ("", "nothing here reads it"),
    ("Pod: spec", "resourceClaims"): (STORED, "the pod runs without the devices"),
    ("Pod: spec", "schedulingGroup"): ("dropped", "its feature is off by default in 1.36"),
    ("Pod: spec", "serviceAccount"): (ACTS, "the older name, which the API server copies"),
    ("Pod: spec", "schedulerName"): ("", "pods of another scheduler are left to it"),
    ("Pod: spec", "os"): ("", f"`windows`: {_REFUSED} (`PodOSNotSupported`)"),
    ("Pod: spec", "hostUsers"): ("", f"false: needs ids for it, which a lab of root has; else {_REFUSED}"),
    ("Pod: spec", "automountServiceAccountToken"): ("", "by the API server"),
    ("Pod: spec", "runtimeClassName"): ("", "a handler that the node does not have: the pod waits"),
    ("Pod: spec.securityContext", "seLinuxChangePolicy"): (STORED, ""),
    ("Pod: spec.securityContext", "windowsOptions"): (STORED, ""),
    ("Pod: spec.securityContext", "seLinuxOptions"): (STORED, "an Event says that it has no effect"),
    ("Pod: spec.securityContext", "appArmorProfile"): ("refused", f"{_REFUSED}, unless `Unconfined`"),
    ("Pod: spec.securityContext", "sysctls"): ("", f"the safe ones of Kubernetes 1.36; others are {_REFUSED}"),
    ("Pod: spec.securityContext", "seccompProfile"): ("", "`RuntimeDefault`, `Localhost`, `Unconfined`"),
    ("Pod: spec.containers", "volumeDevices"): (STORED, "a pod with a block volume waits"),
    ("Pod: spec.containers.resources", "claims"): (STORED, "nothing allocates devices"),
    ("Pod: spec.containers.resources", "limits"): (
        "",
        "enforced where the node has cgroup v2 controllers, else an Event of the node says that they are not",
    ),
    ("Pod: spec.containers.securityContext", "windowsOptions"): (STORED, ""),
    ("Pod: spec.containers.securityContext", "seLinuxOptions"): (STORED, "an Event says that it has no effect"),
    ("Pod: spec.containers.securityContext", "appArmorProfile"): ("refused", f"{_REFUSED}, unless `Unconfined`"),
    ("Pod: spec.containers.volumeMounts", "mountPropagation"): (STORED, ""),
    ("Pod: lifecycle", "stopSignal"): ("dropped", "its feature is off by default in 1.36; an image's own signal acts"),
    ("Pod: spec.volumes", "projected"): (
        "",
        "but `clusterTrustBundle` and `podCertificate`, whose features are off by default in 1.36",
    ),
    ("Pod: spec.volumes", "csi"): ("refused", f"there are no drivers: {_WAITS}"),
    ("Pod: spec.volumes", "hostPath"): ("", "a path of the node's root file system, unless `up --host-access`"),
}
# Where a field that no part reads keeps the pod from starting.
_UNREAD = {"Pod: spec.volumes": ("refused", f"no volume plug-in: {_WAITS}")}

_RELEASE = VERSION.removeprefix("v").removesuffix("-local").rpartition(".")[0]
_INTRODUCTION = f"""\
The API is that of Kubernetes {_RELEASE}. **acts**: a part of Bridgehead does what Kubernetes' own does. **stored**: it
is validated, kept and shown, and nothing acts on it. **refused**: there is an error, or an Event with the reason.
**dropped**: it is removed when the object is stored, as in Kubernetes. Fields that do not exist in that version are
dropped, or refused with `fieldValidation: Strict`, as in Kubernetes.

[Configurations](configurations.md) has what the configurations of kube-proxy, CoreDNS and MetalLB do here;
the [README of the proxy](../src/bridgehead/proxy/README.md#services), how it differs from kube-proxy.

"""


def resources() -> tuple[Resource, ...]:
    """Return the API server's table."""
    return build_table(service_cidrs=("10.96.0.0/12",), node_port_range=(30000, 32767))


def _kinds() -> Iterator[tuple[str, str, str, str]]:
    found: dict[str, list[str]] = {}
    for resource in resources():
        found.setdefault(resource.id, []).append(resource.api_version)
    names = {resource.id: resource.kind for resource in resources()}
    if missing := found.keys() ^ KINDS.keys():
        raise ValueError(f"documentation/compatibility.py differs from the table of resources: {sorted(missing)}")
    for key, versions in found.items():
        state, text = KINDS[key]
        yield ", ".join(sorted(versions)), names[key], state, text
    yield from OTHER_KINDS


def fields_of(heading: str, definition: str, kind: type) -> Iterator[tuple[str, str, str]]:
    """Yield the fields of a definition: the name, the state, a note."""
    read = {field.encode_name for field in msgspec.structs.fields(kind)}
    for name in load_definitions()[definition]["properties"]:
        state, note = NOTES.get((heading, name), ("", ""))
        if not state:
            state, default = (ACTS, "") if name in read else _UNREAD.get(heading, (STORED, ""))
            note = note or default
        yield name, state, note


def check() -> None:
    """Raise ValueError for notes about fields that do not exist."""
    definitions = load_definitions()
    known = {(heading, name) for heading, definition, _ in FIELDS for name in definitions[definition]["properties"]}
    if unknown := NOTES.keys() - known:
        raise ValueError(f"no such fields: {sorted(unknown)}")


def _field_tables() -> Iterator[str]:
    for heading, definition, kind in FIELDS:
        rows = sorted(fields_of(heading, definition, kind))
        plain: dict[tuple[str, str], list[str]] = {}
        for name, state, note in rows:
            plain.setdefault((state, note), []).append(name)
        cells = [(codes(names), state, escaped(note)) for (state, note), names in plain.items()]
        cells.sort(key=lambda cell: (bool(cell[2]), (ACTS, STORED, "refused", "dropped").index(cell[1])))
        yield f"### {heading}\n\n{table(('field', '', ''), cells)}\n"


def render_page() -> str:
    """Return the page."""
    check()
    kinds = ((code(version), kind, state, escaped(text)) for version, kind, state, text in _kinds())
    return "".join(
        (
            "# Compatibility\n\n",
            made_by("compatibility"),
            _INTRODUCTION,
            "## Kinds\n\n",
            table(("API", "kind", "", ""), kinds),
            "\n## Fields\n\nFields that act or are stored without more to be known come first.\n\n",
            *_field_tables(),
            _rest(),
        )
    )


def _rest() -> str:
    """Return what no code knows: conformance and versions."""
    return (ROOT / "documentation" / "compatibility_tail.md").read_text("utf-8")
