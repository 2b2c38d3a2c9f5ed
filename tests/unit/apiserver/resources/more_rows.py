# ruff: noqa: E501
"""Rows of `kubectl get -o wide` for the kinds that other people's controllers use: resource, object (YAML), cells."""

ROWS = {
    "pending request": ("certificatesigningrequests.certificates.k8s.io", "{metadata: {name: a}}", [
        "a", "<unknown>", "<none>", "", "<none>", "Pending"]),
    "issued certificate": ("certificatesigningrequests.certificates.k8s.io", """
        metadata: {name: a, creationTimestamp: "2027-01-15T07:55:00Z"}
        spec: {signerName: a.io/b, username: alice, expirationSeconds: 86400}
        status: {certificate: QQ==, conditions: [{type: Approved, status: "True"}]}
        """, ["a", "5m", "a.io/b", "alice", "24h", "Approved,Issued"]),
    "failed request": ("certificatesigningrequests.certificates.k8s.io", """
        metadata: {name: a}
        status: {conditions: [{type: Failed}, {type: Denied}]}
        """, ["a", "<unknown>", "<none>", "", "<none>", "Denied,Failed"]),
    "component": (
        "componentstatuses",
        "{metadata: {name: etcd-0}, conditions: [{type: Healthy, status: 'True', message: ok}]}",
        ["etcd-0", "Healthy", "ok", ""],
    ),
    "ingress": ("ingresses.networking.k8s.io", """
        metadata: {name: web, creationTimestamp: "2027-01-15T07:55:00Z"}
        spec: {ingressClassName: nginx, tls: [{}], rules: [{host: a}, {host: b}, {host: c}, {host: d}]}
        status: {loadBalancer: {ingress: [{ip: 192.0.2.2}, {hostname: x.example.com}]}}
        """, ["web", "nginx", "a,b,c + 1 more...", "192.0.2.2,x.example.com", "80, 443", "5m"]),
    "ingress for every host": ("ingresses.networking.k8s.io", "{metadata: {name: a}}", [
        "a", "<none>", "*", "", "80", "<unknown>"]),
    "ingress class": ("ingressclasses.networking.k8s.io", """
        metadata: {name: nginx}
        spec: {controller: a.io/b, parameters: {apiGroup: a.io, kind: Settings, name: c}}
        """, ["nginx", "a.io/b", "Settings.a.io/c", "<unknown>"]),
    "network policy": ("networkpolicies.networking.k8s.io", "{metadata: {name: a}, spec: {podSelector: {matchLabels: {b: c}}}}",
        ["a", "b=c", "<unknown>"]),
    "service range": ("servicecidrs.networking.k8s.io", "{metadata: {name: kubernetes}, spec: {cidrs: [10.96.0.0/12, 'fd00::/112']}}",
        ["kubernetes", "10.96.0.0/12,fd00::/112", "<unknown>"]),
    "address of a Service": ("ipaddresses.networking.k8s.io", """
        metadata: {name: 10.96.0.1}
        spec: {parentRef: {group: "", resource: services, namespace: default, name: kubernetes}}
        """, ["10.96.0.1", "services/default/kubernetes"]),
    "address of a gateway": ("ipaddresses.networking.k8s.io", """
        metadata: {name: 10.96.0.2}
        spec: {parentRef: {group: Gateway.io, resource: gateways, name: a}}
        """, ["10.96.0.2", "gateways.gateway.io/a"]),
    "event of the newer group": ("events.events.k8s.io", """
        metadata: {name: a.1}
        involvedObject: {kind: Pod, name: web}
        type: Normal
        reason: Started
        reportingComponent: kubelet
        message: Started it
        """, ["<unknown>", "Normal", "Started", "pod/web", "", "kubelet", "Started it", "<unknown>", 1, "a.1"]),
    "pod template": ("podtemplates", """
        metadata: {name: a}
        template: {metadata: {labels: {b: c}}, spec: {containers: [{name: d, image: e}, {name: f, image: g}]}}
        """, ["a", "d,f", "e,g", "b=c"]),
    "controller revision": ("controllerrevisions.apps", """
        metadata:
          name: a-1
          ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: a, controller: true}]
        revision: 2
        """, ["a-1", "daemonset.apps/a", 2, "<unknown>"]),
    "controller revision without controller": ("controllerrevisions.apps", "{metadata: {name: a-1}}", [
        "a-1", "<none>", 0, "<unknown>"]),
    "resource quota": ("resourcequotas", """
        metadata: {name: a}
        status:
          hard: {pods: "10", limits.cpu: "2", cpu: "1"}
          used: {pods: "3", limits.cpu: 500m}
        """, ["a", "cpu: 0/1, pods: 3/10", "limits.cpu: 500m/2", "<unknown>"]),
    "limit range": ("limitranges", '{metadata: {name: a, creationTimestamp: "2027-01-15T07:55:00Z"}}', [
        "a", "2027-01-15T07:55:00Z"]),
    "replication controller": ("replicationcontrollers", """
        metadata: {name: a}
        spec: {replicas: 3, selector: {b: c}, template: {spec: {containers: [{name: d, image: e}]}}}
        status: {replicas: 2, readyReplicas: 1}
        """, ["a", 3, 2, 1, "<unknown>", "d", "e", "b=c"]),
    "stateful set": ("statefulsets.apps", """
        metadata: {name: a}
        spec: {replicas: 3, selector: {matchLabels: {b: c}}, template: {spec: {containers: [{name: d, image: e}]}}}
        status: {replicas: 2, readyReplicas: 1}
        """, ["a", "1/3", "<unknown>", "d", "e"]),
    "job": ("jobs.batch", """
        metadata: {name: a}
        spec: {completions: 3, parallelism: 2, selector: {matchLabels: {b: c}}, template: {spec: {containers: [{name: d, image: e}]}}}
        status: {succeeded: 1, startTime: "2027-01-15T07:55:00Z", completionTime: "2027-01-15T07:56:00Z",
          conditions: [{type: Complete, status: "True"}]}
        """, ["a", "Complete", "1/3", "60s", "<unknown>", "d", "e", "b=c"]),
    "suspended job": ("jobs.batch", """
        metadata: {name: a}
        spec: {parallelism: 2, template: {spec: {containers: []}}}
        status: {conditions: [{type: Suspended, status: "True"}]}
        """, ["a", "Suspended", "0/1 of 2", "", "<unknown>", "", "", "<none>"]),
    "cron job": ("cronjobs.batch", """
        metadata: {name: a}
        spec: {schedule: "@daily", timeZone: Europe/Berlin, suspend: false,
          jobTemplate: {spec: {template: {spec: {containers: [{name: d, image: e}]}}}}}
        status: {lastScheduleTime: "2027-01-15T07:55:00Z", active: [{}]}
        """, ["a", "@daily", "Europe/Berlin", "False", 1, "5m", "<unknown>", "d", "e", "<none>"]),
    "autoscaler": ("horizontalpodautoscalers.autoscaling", """
        metadata: {name: web, creationTimestamp: "2027-01-15T07:55:00Z"}
        spec:
          scaleTargetRef: {kind: Deployment, name: web}
          minReplicas: 2
          maxReplicas: 9
          metrics:
          - {type: Resource, resource: {name: cpu, target: {averageUtilization: 80}}}
          - {type: ContainerResource, containerResource: {name: memory, target: {averageValue: 1Gi}}}
          - {type: Pods, pods: {target: {averageValue: 10}}}
        status: {currentReplicas: 3}
        """, ["web", "Deployment/web", "cpu: <unknown>/80%, memory: <unknown>/1Gi + 1 more...", "2", 9, 3, "5m"]),
    "autoscaler with values": ("horizontalpodautoscalers.autoscaling", """
        metadata: {name: web}
        spec:
          scaleTargetRef: {kind: Deployment, name: web}
          metrics:
          - {type: Resource, resource: {name: cpu, target: {averageUtilization: 80}}}
          - {type: External, external: {target: {averageValue: 10}}}
        status:
          currentMetrics:
          - {type: Resource, resource: {name: cpu, current: {averageUtilization: 12, averageValue: 30m}}}
          - {type: External, external: {current: {averageValue: 7}}}
        """, ["web", "Deployment/web", "cpu: 12%/80%, 7/10 (avg)", "<unset>", 0, 0, "<unknown>"]),
    "autoscaler of an object": ("horizontalpodautoscalers.autoscaling", """
        metadata: {name: web}
        spec:
          minReplicas: 1
          scaleTargetRef: {kind: Widget, name: a}
          metrics:
          - {type: Object, object: {target: {value: 2k}}}
          - {type: Pods, pods: {target: {averageValue: 10}}}
        status: {currentMetrics: [{}, {type: Pods, pods: {current: {averageValue: 7500m}}}]}
        """, ["web", "Widget/a", "<unknown>/2k, 7500m/10", "1", 0, 0, "<unknown>"]),
    "autoscaler without metrics": ("horizontalpodautoscalers.autoscaling", "{metadata: {name: a}}", ["a", "/", "<none>", "<unset>", 0, 0, "<unknown>"]),
    "runtime class": ("runtimeclasses.node.k8s.io", "{metadata: {name: a}, handler: runsc}", ["a", "runsc", "<unknown>"]),
    "budget": ("poddisruptionbudgets.policy", """
        metadata: {name: a, creationTimestamp: "2027-01-15T07:55:00Z"}
        spec: {minAvailable: 2}
        status: {disruptionsAllowed: 1}
        """, ["a", "2", "N/A", 1, "5m"]),
    "budget of a share": ("poddisruptionbudgets.policy", "{metadata: {name: a}, spec: {maxUnavailable: 30%}}", [
        "a", "N/A", "30%", 0, "<unknown>"]),
    "priority class": ("priorityclasses.scheduling.k8s.io", "{metadata: {name: a}, value: 7, preemptionPolicy: Never}",
        ["a", 7, "false", "<unknown>", "Never"]),
    "persistent volume": ("persistentvolumes", """
        metadata: {name: a}
        spec:
          capacity: {storage: 5Gi}
          accessModes: [ReadWriteMany, ReadWriteOnce]
          persistentVolumeReclaimPolicy: Retain
          claimRef: {namespace: default, name: data}
          storageClassName: gold
          volumeMode: Filesystem
        status: {phase: Bound}
        """, ["a", "5Gi", "RWO,RWX", "Retain", "Bound", "default/data", "gold", "<unset>", "", "<unknown>", "Filesystem"]),
    "persistent volume claim": ("persistentvolumeclaims", """
        metadata: {name: data}
        spec: {volumeName: a, storageClassName: gold, volumeMode: Filesystem}
        status: {phase: Bound, capacity: {storage: 5Gi}, accessModes: [ReadWriteOnce]}
        """, ["data", "Bound", "a", "5Gi", "RWO", "gold", "<unset>", "<unknown>", "Filesystem"]),
    "default storage class": ("storageclasses.storage.k8s.io", """
        metadata: {name: gold, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
        provisioner: a.io/b
        reclaimPolicy: Delete
        volumeBindingMode: Immediate
        """, ["gold (default)", "a.io/b", "Delete", "Immediate", False, "<unknown>"]),
    "volume attachment": ("volumeattachments.storage.k8s.io", """
        metadata: {name: a}
        spec: {attacher: b, nodeName: c, source: {persistentVolumeName: d}}
        status: {attached: true}
        """, ["a", "b", "d", "c", True, "<unknown>"]),
    "volume attributes class": ("volumeattributesclasses.storage.k8s.io", "{metadata: {name: a}, driverName: b}",
        ["a", "b", "<unknown>"]),
    "CSI driver": ("csidrivers.storage.k8s.io", """
        metadata: {name: a}
        spec: {attachRequired: true, tokenRequests: [{audience: b}], volumeLifecycleModes: [Persistent, Ephemeral]}
        """, ["a", True, False, False, "b", False, "Persistent,Ephemeral", "<unknown>"]),
    "CSI node": ("csinodes.storage.k8s.io", "{metadata: {name: a}, spec: {drivers: [{name: b}]}}", ["a", 1, "<unknown>"]),
    "CSI storage capacity": ("csistoragecapacities.storage.k8s.io", "{metadata: {name: a}, storageClassName: b, capacity: 1Gi}",
        ["a", "b", "1Gi"]),
    "device class": ("deviceclasses.resource.k8s.io", "{metadata: {name: a}}", ["a", "<unknown>"]),
    "pending claim": ("resourceclaims.resource.k8s.io", "{metadata: {name: a}}", ["a", "pending", "<unknown>"]),
    "reserved claim": ("resourceclaims.resource.k8s.io", "{metadata: {name: a}, status: {allocation: {}, reservedFor: [{name: b}]}}",
        ["a", "allocated,reserved", "<unknown>"]),
    "resource claim template": ("resourceclaimtemplates.resource.k8s.io", "{metadata: {name: a}}", ["a", "<unknown>"]),
    "resource slice": ("resourceslices.resource.k8s.io", "{metadata: {name: a}, spec: {nodeName: n, driver: d, pool: {name: p}}}",
        ["a", "n", "d", "p", "<unknown>"]),
    "mutating webhooks": ("mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "{metadata: {name: a}, webhooks: [{name: b.c.d}, {name: e.f.g}]}", ["a", 2, "<unknown>"]),
    "validating webhooks": ("validatingwebhookconfigurations.admissionregistration.k8s.io",
        "{metadata: {name: a}}", ["a", 0, "<unknown>"]),
    "flow schema": ("flowschemas.flowcontrol.apiserver.k8s.io", """
        metadata: {name: a}
        spec: {matchingPrecedence: 500, priorityLevelConfiguration: {name: b}, distinguisherMethod: {type: ByUser}}
        status: {conditions: [{type: Dangling, status: "False"}]}
        """, ["a", "b", 500, "ByUser", "<unknown>", "False"]),
    "priority level": ("prioritylevelconfigurations.flowcontrol.apiserver.k8s.io", """
        metadata: {name: a}
        spec:
          type: Limited
          limited:
            nominalConcurrencyShares: 30
            limitResponse: {type: Queue, queuing: {queues: 64, handSize: 6, queueLengthLimit: 50}}
        """, ["a", "Limited", 30, 64, 6, 50, "<unknown>"]),
    "exempt priority level": ("prioritylevelconfigurations.flowcontrol.apiserver.k8s.io", """
        metadata: {name: exempt}
        spec: {type: Exempt, exempt: {nominalConcurrencyShares: 0}}
        """, ["exempt", "Exempt", 0, "<none>", "<none>", "<none>", "<unknown>"]),
    "role": ("roles.rbac.authorization.k8s.io", '{metadata: {name: a, creationTimestamp: "2027-01-15T07:55:00Z"}}', [
        "a", "2027-01-15T07:55:00Z"]),
    "cluster role": ("clusterroles.rbac.authorization.k8s.io", "{metadata: {name: a}}", ["a", ""]),
    "role binding": ("rolebindings.rbac.authorization.k8s.io", """
        metadata: {name: a}
        roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: b}
        subjects:
        - {kind: User, name: u}
        - {kind: User, name: v}
        - {kind: Group, name: g}
        - {kind: ServiceAccount, name: s}
        """, ["a", "Role/b", "<unknown>", "u, v", "g", "/s"]),
    "cluster role binding": ("clusterrolebindings.rbac.authorization.k8s.io", """
        metadata: {name: a}
        roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: b}
        subjects: [{kind: ServiceAccount, namespace: n, name: s}]
        """, ["a", "ClusterRole/b", "<unknown>", "", "", "n/s"]),
    "validating policy": ("validatingadmissionpolicies.admissionregistration.k8s.io", """
        metadata: {name: a}
        spec: {validations: [{expression: "true"}], paramKind: {apiVersion: v1, kind: ConfigMap}}
        """, ["a", 1, "v1/ConfigMap", "<unknown>"]),
    "mutating policy": ("mutatingadmissionpolicies.admissionregistration.k8s.io", """
        metadata: {name: a}
        spec: {mutations: [{patchType: JSONPatch}, {patchType: JSONPatch}]}
        """, ["a", 2, "<unset>", "<unknown>"]),
    "validating binding": ("validatingadmissionpolicybindings.admissionregistration.k8s.io", """
        metadata: {name: a}
        spec: {policyName: p, paramRef: {name: b, namespace: c}}
        """, ["a", "p", "c/b", "<unknown>"]),
    "mutating binding": ("mutatingadmissionpolicybindings.admissionregistration.k8s.io", """
        metadata: {name: a}
        spec: {policyName: p}
        """, ["a", "p", "<unset>", "<unknown>"]),
    "local API": ("apiservices.apiregistration.k8s.io", """
        metadata: {name: v1.apps}
        status: {conditions: [{type: Available, status: "True", reason: Local}]}
        """, ["v1.apps", "Local", "True", "<unknown>"]),
    "aggregated API": ("apiservices.apiregistration.k8s.io", """
        metadata: {name: v1.a.io}
        spec: {service: {namespace: default, name: api}}
        status: {conditions: [{type: Available, status: "False", reason: ServiceNotFound}]}
        """, ["v1.a.io", "default/api", "False (ServiceNotFound)", "<unknown>"]),
    "unchecked API": ("apiservices.apiregistration.k8s.io", "{metadata: {name: v1.a.io}}",
        ["v1.a.io", "Local", "Unknown", "<unknown>"]),
}  # fmt: skip

# kind, singular, short names, categories, namespaced
NAMES = {
    "certificatesigningrequests.certificates.k8s.io": (
        "CertificateSigningRequest",
        "certificatesigningrequest",
        ("csr",),
        (),
        False,
    ),
    "componentstatuses": ("ComponentStatus", "componentstatus", ("cs",), (), False),
    "statefulsets.apps": ("StatefulSet", "statefulset", ("sts",), ("all",), True),
    "jobs.batch": ("Job", "job", (), ("all",), True),
    "cronjobs.batch": ("CronJob", "cronjob", ("cj",), ("all",), True),
    "replicationcontrollers": ("ReplicationController", "replicationcontroller", ("rc",), ("all",), True),
    "resourcequotas": ("ResourceQuota", "resourcequota", ("quota",), (), True),
    "limitranges": ("LimitRange", "limitrange", ("limits",), (), True),
    "controllerrevisions.apps": ("ControllerRevision", "controllerrevision", (), (), True),
    "horizontalpodautoscalers.autoscaling": ("HorizontalPodAutoscaler", "horizontalpodautoscaler", ("hpa",), ("all",), True),
    "podtemplates": ("PodTemplate", "podtemplate", (), (), True),
    "events.events.k8s.io": ("Event", "event", ("ev",), (), True),
    "ingresses.networking.k8s.io": ("Ingress", "ingress", ("ing",), (), True),
    "ingressclasses.networking.k8s.io": ("IngressClass", "ingressclass", (), (), False),
    "networkpolicies.networking.k8s.io": ("NetworkPolicy", "networkpolicy", ("netpol",), (), True),
    "apiservices.apiregistration.k8s.io": ("APIService", "apiservice", (), ("api-extensions",), False),
    "servicecidrs.networking.k8s.io": ("ServiceCIDR", "servicecidr", (), (), False),
    "ipaddresses.networking.k8s.io": ("IPAddress", "ipaddress", ("ip",), (), False),
    "runtimeclasses.node.k8s.io": ("RuntimeClass", "runtimeclass", (), (), False),
    "poddisruptionbudgets.policy": ("PodDisruptionBudget", "poddisruptionbudget", ("pdb",), (), True),
    "priorityclasses.scheduling.k8s.io": ("PriorityClass", "priorityclass", ("pc",), (), False),
    "persistentvolumes": ("PersistentVolume", "persistentvolume", ("pv",), (), False),
    "persistentvolumeclaims": ("PersistentVolumeClaim", "persistentvolumeclaim", ("pvc",), (), True),
    "storageclasses.storage.k8s.io": ("StorageClass", "storageclass", ("sc",), (), False),
    "volumeattachments.storage.k8s.io": ("VolumeAttachment", "volumeattachment", (), (), False),
    "volumeattributesclasses.storage.k8s.io": ("VolumeAttributesClass", "volumeattributesclass", ("vac",), (), False),
    "csidrivers.storage.k8s.io": ("CSIDriver", "csidriver", (), (), False),
    "csinodes.storage.k8s.io": ("CSINode", "csinode", (), (), False),
    "csistoragecapacities.storage.k8s.io": ("CSIStorageCapacity", "csistoragecapacity", (), (), True),
    "deviceclasses.resource.k8s.io": ("DeviceClass", "deviceclass", (), (), False),
    "resourceclaims.resource.k8s.io": ("ResourceClaim", "resourceclaim", (), (), True),
    "resourceclaimtemplates.resource.k8s.io": ("ResourceClaimTemplate", "resourceclaimtemplate", (), (), True),
    "resourceslices.resource.k8s.io": ("ResourceSlice", "resourceslice", (), (), False),
    "flowschemas.flowcontrol.apiserver.k8s.io": ("FlowSchema", "flowschema", (), (), False),
    "roles.rbac.authorization.k8s.io": ("Role", "role", (), (), True),
    "clusterroles.rbac.authorization.k8s.io": ("ClusterRole", "clusterrole", (), (), False),
    "rolebindings.rbac.authorization.k8s.io": ("RoleBinding", "rolebinding", (), (), True),
    "clusterrolebindings.rbac.authorization.k8s.io": ("ClusterRoleBinding", "clusterrolebinding", (), (), False),
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": (
        "PriorityLevelConfiguration", "prioritylevelconfiguration", (), (), False),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": (
        "MutatingWebhookConfiguration", "mutatingwebhookconfiguration", (), ("api-extensions",), False),
    "validatingwebhookconfigurations.admissionregistration.k8s.io": (
        "ValidatingWebhookConfiguration", "validatingwebhookconfiguration", (), ("api-extensions",), False),
    **{
        f"{plural}.admissionregistration.k8s.io": (kind, kind.lower(), (), ("api-extensions",), False)
        for plural, kind in (
            ("validatingadmissionpolicies", "ValidatingAdmissionPolicy"),
            ("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding"),
            ("mutatingadmissionpolicies", "MutatingAdmissionPolicy"),
            ("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding"),
        )
    },
}  # fmt: skip
