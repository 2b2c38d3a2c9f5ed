"""The values of fields whose Go types are enumerations; `kubectl explain` lists them.

The published definitions do not have them: a cluster's own documents do. A field that is a list has the values of its
items. Pure: no I/O, no clock, no randomness. Source: types marked with +enum in k8s.io/api (KEP-2887).
"""

from __future__ import annotations

from bridgehead.apiserver.resource import JsonObject

_PROTOCOL = ("SCTP", "TCP", "UDP")
_PULL_POLICY = ("Always", "IfNotPresent", "Never")
_TERMINATION_MESSAGE = ("FallbackToLogsOnError", "File")
_RESTART_POLICY = ("Always", "Never", "OnFailure")
_PREEMPTION = ("Never", "PreemptLowerPriority")
_TAINT_EFFECT = ("NoExecute", "NoSchedule", "PreferNoSchedule")
_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODE = ("Block", "Filesystem")
_RECLAIM_POLICY = ("Delete", "Recycle", "Retain")
_INCLUSION = ("Honor", "Ignore")
_PROFILE = ("Localhost", "RuntimeDefault", "Unconfined")
_IP_FAMILIES = ("", "IPv4", "IPv6")
_UPDATE_STRATEGY = ("OnDelete", "RollingUpdate")
_CLUSTER_OR_LOCAL = ("Cluster", "Local")
_FAIL_OR_IGNORE, _EQUIVALENT_OR_EXACT = ("Fail", "Ignore"), ("Equivalent", "Exact")
_OPERATIONS, _SCOPES = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE"), ("*", "Cluster", "Namespaced")
_SIDE_EFFECTS = ("None", "NoneOnDryRun", "Some", "Unknown")
_WEBHOOK = {"failurePolicy": _FAIL_OR_IGNORE, "matchPolicy": _EQUIVALENT_OR_EXACT, "sideEffects": _SIDE_EFFECTS}
_CONTAINER = {"imagePullPolicy": _PULL_POLICY, "terminationMessagePolicy": _TERMINATION_MESSAGE}

# Values by definition (without `io.k8s.api.`) and field.
ENUMS: dict[str, dict[str, tuple[str, ...]]] = {
    "admissionregistration.v1.MatchResources": {"matchPolicy": _EQUIVALENT_OR_EXACT},
    "admissionregistration.v1.MutatingAdmissionPolicySpec": {"failurePolicy": _FAIL_OR_IGNORE},
    "admissionregistration.v1.Mutation": {"patchType": ("ApplyConfiguration", "JSONPatch")},
    "admissionregistration.v1.MutatingWebhook": {**_WEBHOOK, "reinvocationPolicy": ("IfNeeded", "Never")},
    "admissionregistration.v1.NamedRuleWithOperations": {"operations": _OPERATIONS, "scope": _SCOPES},
    "admissionregistration.v1.RuleWithOperations": {"operations": _OPERATIONS, "scope": _SCOPES},
    "admissionregistration.v1.ValidatingAdmissionPolicyBindingSpec": {"validationActions": ("Audit", "Deny", "Warn")},
    "admissionregistration.v1.ValidatingAdmissionPolicySpec": {"failurePolicy": _FAIL_OR_IGNORE},
    "admissionregistration.v1.ValidatingWebhook": _WEBHOOK,
    "apps.v1.DaemonSetUpdateStrategy": {"type": _UPDATE_STRATEGY},
    "apps.v1.DeploymentStrategy": {"type": ("Recreate", "RollingUpdate")},
    "core.v1.AppArmorProfile": {"type": _PROFILE},
    "core.v1.AzureDiskVolumeSource": {
        "cachingMode": ("None", "ReadOnly", "ReadWrite"),
        "kind": ("Dedicated", "Managed", "Shared"),
    },
    "core.v1.Container": _CONTAINER,
    "core.v1.ContainerPort": {"protocol": _PROTOCOL},
    "core.v1.ContainerResizePolicy": {"restartPolicy": ("NotRequired", "RestartContainer")},
    "core.v1.EndpointPort": {"protocol": _PROTOCOL},
    "core.v1.EphemeralContainer": _CONTAINER,
    "core.v1.HTTPGetAction": {"scheme": ("HTTP", "HTTPS")},
    "core.v1.HostPathVolumeSource": {
        "type": ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"),
    },
    "core.v1.ImageVolumeSource": {"pullPolicy": _PULL_POLICY},
    "core.v1.NamespaceStatus": {"phase": ("Active", "Terminating")},
    "core.v1.NodeSelectorRequirement": {"operator": ("DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn")},
    "core.v1.NodeStatus": {"phase": ("Pending", "Running", "Terminated")},
    "core.v1.PersistentVolumeClaimSpec": {"accessModes": _ACCESS_MODES, "volumeMode": _VOLUME_MODE},
    "core.v1.PersistentVolumeClaimStatus": {"accessModes": _ACCESS_MODES, "phase": ("Bound", "Lost", "Pending")},
    "core.v1.PersistentVolumeSpec": {
        "accessModes": _ACCESS_MODES,
        "persistentVolumeReclaimPolicy": _RECLAIM_POLICY,
        "volumeMode": _VOLUME_MODE,
    },
    "core.v1.PersistentVolumeStatus": {"phase": ("Available", "Bound", "Failed", "Pending", "Released")},
    "core.v1.PodSecurityContext": {
        "fsGroupChangePolicy": ("Always", "OnRootMismatch"),
        "supplementalGroupsPolicy": ("Merge", "Strict"),
    },
    "core.v1.PodSpec": {
        "dnsPolicy": ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
        "preemptionPolicy": _PREEMPTION,
        "restartPolicy": _RESTART_POLICY,
    },
    "core.v1.PodStatus": {
        "phase": ("Failed", "Pending", "Running", "Succeeded", "Unknown"),
        "qosClass": ("BestEffort", "Burstable", "Guaranteed"),
    },
    "core.v1.SeccompProfile": {"type": _PROFILE},
    "core.v1.SecurityContext": {"procMount": ("Default", "Unmasked")},
    "core.v1.ServicePort": {"protocol": _PROTOCOL},
    "core.v1.ServiceSpec": {
        "externalTrafficPolicy": _CLUSTER_OR_LOCAL,
        "internalTrafficPolicy": _CLUSTER_OR_LOCAL,
        "ipFamilies": _IP_FAMILIES,
        "ipFamilyPolicy": ("PreferDualStack", "RequireDualStack", "SingleStack"),
        "sessionAffinity": ("ClientIP", "None"),
        "type": ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"),
    },
    "core.v1.Taint": {"effect": _TAINT_EFFECT},
    "core.v1.Toleration": {"effect": _TAINT_EFFECT, "operator": ("Equal", "Exists", "Gt", "Lt")},
    "core.v1.TopologySpreadConstraint": {
        "nodeAffinityPolicy": _INCLUSION,
        "nodeTaintsPolicy": _INCLUSION,
        "whenUnsatisfiable": ("DoNotSchedule", "ScheduleAnyway"),
    },
    "core.v1.VolumeMount": {"mountPropagation": ("Bidirectional", "HostToContainer", "None")},
    "discovery.v1.EndpointSlice": {"addressType": ("FQDN", "IPv4", "IPv6")},
    "networking.v1.HTTPIngressPath": {"pathType": ("Exact", "ImplementationSpecific", "Prefix")},
    "networking.v1.NetworkPolicySpec": {"policyTypes": ("Egress", "Ingress")},
    "scheduling.v1.PriorityClass": {"preemptionPolicy": _PREEMPTION},
    "storage.v1.CSIDriverSpec": {
        "fsGroupPolicy": ("File", "None", "ReadWriteOnceWithFSType"),
        "volumeLifecycleModes": ("Ephemeral", "Persistent"),
    },
    "storage.v1.StorageClass": {
        "reclaimPolicy": _RECLAIM_POLICY,
        "volumeBindingMode": ("Immediate", "WaitForFirstConsumer"),
    },
}


def with_enums(name: str, schema: JsonObject) -> JsonObject:
    """Return the OpenAPI schema of a definition with the values of its fields. Does not change `schema`."""
    enums = ENUMS.get(name.removeprefix("io.k8s.api."))
    if enums is None:
        return schema
    properties = dict(schema["properties"])
    for field, values in enums.items():
        old = properties[field]
        if "items" in old:
            properties[field] = {**old, "items": {**old["items"], "enum": list(values)}}
        else:
            properties[field] = {**old, "enum": list(values)}
    return {**schema, "properties": properties}
