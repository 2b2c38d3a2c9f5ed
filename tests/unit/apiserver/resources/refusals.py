# ruff: noqa: E501
"""Objects of the kinds that other people's controllers use, and the reasons why they are refused.

Each case is an object in YAML, merged with a name, and the texts of its errors; no text: the object is accepted.
"""

from . import certificate_requests, device_refusals, job_refusals, policy_refusals, volume_refusals, webhook_refusals

SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
QUALIFIED = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
LONG_DOMAIN = ".".join(["a" * 49] * 5)
BACKEND = "backend: {service: {name: a, port: {number: 80}}}"
WEB = "scaleTargetRef: {kind: Deployment, apiVersion: apps/v1, name: web}"
METRIC_TYPES = '"ContainerResource", "External", "Object", "Pods", "Resource"'
CIDR = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
REQUEST = "exactly: {deviceClassName: gpu}"
QUEUE = "limitResponse: {type: Queue, queuing: {queues: %d, handSize: %d}}"

DATABASE = (
    "selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: b, "
    "volumeMounts: [{name: data, mountPath: /data}]}], volumes: [{name: data, emptyDir: {}}]}}"
)
CLAIM = "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}"

NETWORKING = {
    "ingresses.networking.k8s.io": [
        ("{spec: {defaultBackend: {service: {name: 1a, port: {number: 80}}}}}", []),
        (f"{{spec: {{rules: [{{host: '*.a.com', http: {{paths: [{{path: /, pathType: Prefix, {BACKEND}}}]}}}}]}}}}", []),
        ("{}", ["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"]),
        ("{spec: {rules: [{http: {}}]}}", ["spec.rules[0].http.paths: Required value"]),
        (f"{{spec: {{rules: [{{host: 10.0.0.1, http: {{paths: [{{{BACKEND}}}]}}}}]}}}}", [
            'spec.rules[0].host: Invalid value: "10.0.0.1": must be a DNS name, not an IP address',
            "spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified"]),
        (f"{{spec: {{rules: [{{http: {{paths: [{{path: a//b/.., pathType: Exact, {BACKEND}}}]}}}}]}}}}", [
            'spec.rules[0].http.paths[0].path: Invalid value: "a//b/..": must be an absolute path',
            "spec.rules[0].http.paths[0].path: Invalid value: \"a//b/..\": must not contain '//'",
            "spec.rules[0].http.paths[0].path: Invalid value: \"a//b/..\": cannot end with '/..'"]),
        (f"{{spec: {{rules: [{{http: {{paths: [{{path: /, pathType: Regex, {BACKEND}}}]}}}}]}}}}", [
            'spec.rules[0].http.paths[0].pathType: Unsupported value: "Regex": supported values: "Exact", '
            '"ImplementationSpecific", "Prefix"']),
        ("{spec: {defaultBackend: {}}}", [
            'spec.defaultBackend: Invalid value: "": resource or service backend is required']),
        ("{spec: {defaultBackend: {resource: {kind: a, name: b}, service: {name: c}}}}", [
            'spec.defaultBackend: Invalid value: "": cannot set both resource and service backends']),
        ("{spec: {defaultBackend: {service: {}}}}", [
            "spec.defaultBackend.service.name: Required value",
            "spec.defaultBackend: Required value: port name or number is required"]),
        ("{spec: {defaultBackend: {service: {name: a, port: {name: x, number: 1}}}}}", [
            'spec.defaultBackend: Invalid value: "": cannot set both port name & port number']),
        ("{spec: {defaultBackend: {resource: {name: a/b}}}}", [
            "spec.defaultBackend.resource.kind: Required value: kind is required",
            "spec.defaultBackend.resource.name: Invalid value: \"a/b\": may not contain '/'"]),
        ("{spec: {defaultBackend: {service: {name: a, port: {number: 80}}}, tls: [{hosts: ['a.*'], secretName: A}]}}", [
            "spec.tls[0].hosts[0]: Invalid value: \"a.*\": a wildcard DNS-1123 subdomain must start with '*.', "
            "followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' "
            "and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is "
            r"'\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            f'spec.tls[0].secretName: Invalid value: "A": {SUBDOMAIN}']),
        ("{metadata: {annotations: {kubernetes.io/ingress.class: a}}, "
         "spec: {ingressClassName: b, defaultBackend: {service: {name: a, port: {number: 80}}}}}", [
            'annotations.kubernetes.io/ingress.class: Invalid value: "a": must match `ingressClassName` when both are '
            "specified"]),
    ],
    "ingressclasses.networking.k8s.io": [
        ("{spec: {controller: example.com/a, parameters: {kind: a, name: b}}}", []),
        ("{}", ["spec.controller: Required value"]),
        ("{spec: {controller: a}}", [
            'spec.controller: Invalid value: "a": must be a domain-prefixed path (such as "acme.io/foo")']),
        ("{spec: {controller: 'a/b c'}}", [
            'spec.controller: Invalid value: "b c": Invalid path (regex used for validation is '
            r"'[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')"]),
        ("{spec: {controller: a/b, parameters: {kind: a, name: b, scope: Namespace}}}", [
            "spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'"]),
        ("{spec: {controller: a/b, parameters: {kind: a, name: b, namespace: c}}}", [
            "spec.parameters.namespace: Forbidden: `parameters.scope` is set to 'Cluster'"]),
        ("{spec: {controller: a/b, parameters: {kind: a, name: b, scope: Pod}}}", [
            'spec.parameters.scope: Unsupported value: "Pod": supported values: "Cluster", "Namespace"']),
    ],
    "networkpolicies.networking.k8s.io": [
        ("{}", []),
        ("{spec: {ingress: [{from: [{podSelector: {}}], ports: [{port: 80, endPort: 90}, {port: web}]}]}}", []),
        ("{spec: {ingress: [{from: [{}]}]}}", ["spec.ingress[0].from[0]: Required value: must specify a peer"]),
        ("{spec: {egress: [{to: [{podSelector: {}, ipBlock: {cidr: 10.0.0.0/8}}]}]}}", [
            "spec.egress[0].to[0]: Forbidden: may not specify both ipBlock and another peer"]),
        ("{spec: {egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.0.0.0/8, x]}}]}]}}", [
            'spec.egress[0].to[0].ipBlock.except[0]: Invalid value: "10.0.0.0/8": must be a strict subset of `cidr`',
            f'spec.egress[0].to[0].ipBlock.except[1]: Invalid value: "x": {CIDR}']),
        ("{spec: {egress: [{to: [{ipBlock: {cidr: 10.0.0.1/8}}]}]}}", [
            'spec.egress[0].to[0].ipBlock.cidr: Invalid value: "10.0.0.1/8": '
            "must not have bits set beyond the prefix length"]),
        ("{spec: {egress: [{to: [{ipBlock: {}}, {ipBlock: {cidr: x}}]}]}}", [
            "spec.egress[0].to[0].ipBlock.cidr: Required value",
            f'spec.egress[0].to[1].ipBlock.cidr: Invalid value: "x": {CIDR}']),
        ("{spec: {ingress: [{ports: [{protocol: ICMP}, {port: 90, endPort: 80}, {port: a, endPort: 1}, {endPort: 1}]}]}}", [
            'spec.ingress[0].ports[0].protocol: Unsupported value: "ICMP": supported values: "TCP", "UDP", "SCTP"',
            "spec.ingress[0].ports[1].endPort: Invalid value: 80: must be greater than or equal to `port`",
            "spec.ingress[0].ports[2].endPort: Invalid value: 1: may not be specified when `port` is non-numeric",
            "spec.ingress[0].ports[3].endPort: Invalid value: 1: may not be specified when `port` is not specified"]),
        ("{spec: {policyTypes: [A]}}", [
            'spec.policyTypes[0]: Unsupported value: "A": supported values: "Ingress", "Egress"']),
        ("{spec: {policyTypes: [Ingress, Egress, Ingress]}}", [
            'spec.policyTypes: Invalid value: ["Ingress","Egress","Ingress"]: may not specify more than two policyTypes']),
    ],
    "servicecidrs.networking.k8s.io": [
        ("{spec: {cidrs: [10.97.0.0/16, 'fd00::/112']}}", []),
        ("{}", ["spec.cidrs: Required value: at least one CIDR required"]),
        ("{spec: {cidrs: [a]}}", [f'spec.cidrs[0]: Invalid value: "a": {CIDR}']),
        ("{spec: {cidrs: [10.0.0.1/16]}}", [
            'spec.cidrs[0]: Invalid value: "10.0.0.1/16": must not have bits set beyond the prefix length']),
        ("{spec: {cidrs: [10.0.0.0/16, 10.1.0.0/16]}}", [
            'spec.cidrs: Invalid value: ["10.0.0.0/16","10.1.0.0/16"]: may specify no more than one IP for each IP '
            "family, i.e 192.168.0.0/24 and 2001:db8::/64"]),
        ("{spec: {cidrs: [a, b, c]}}", [
            'spec.cidrs: Invalid value: {"cidrs":["a","b","c"]}: may only hold up to 2 values']),
    ],
    "ipaddresses.networking.k8s.io": [
        ("{metadata: {name: 10.96.0.7}, spec: {parentRef: {group: a.io, resource: gateways, name: b}}}", []),
        ("{}", ["spec.parentRef: Required value"]),
        ("{spec: {parentRef: {group: A, namespace: a/b}}}", [
            f'spec.parentRef.group: Invalid value: "A": {SUBDOMAIN}',
            "spec.parentRef.resource: Required value",
            "spec.parentRef.name: Required value",
            "spec.parentRef.namespace: Invalid value: \"a/b\": may not contain '/'"]),
    ],
}  # fmt: skip

CLASSES = {
    "componentstatuses": [("{}", [])],
    "events.events.k8s.io": [("{}", [
        "eventTime: Required value", 'type: Invalid value: "": has invalid value: '])],
    "replicationcontrollers": [
        ("{spec: {template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: b}]}}}}", []),
        ("{}", ["spec.selector: Required value", "spec.template: Required value"]),
        ("{spec: {replicas: -1, selector: {a: c}, template: {metadata: {labels: {a: b}}, spec: {restartPolicy: Never, "
         "containers: [{name: a, image: b}]}}}}", [
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
            'spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`',
            'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"']),
    ],
    "statefulsets.apps": [
        (f"{{spec: {{{DATABASE}, volumeClaimTemplates: [{{metadata: {{name: data}}, {CLAIM}}}]}}}}", []),
        (f"{{spec: {{{DATABASE}, serviceName: a_b}}}}", [f'spec.serviceName: Invalid value: "a_b": {LABEL}']),
        ("{spec: {podManagementPolicy: Random, replicas: -1, ordinals: {start: -2}, updateStrategy: {type: Recreate}, "
         "persistentVolumeClaimRetentionPolicy: {whenScaled: Keep}, selector: {}, "
         "template: {spec: {containers: [{name: a, image: b}], activeDeadlineSeconds: 9}}}}", [
            "spec.podManagementPolicy: Invalid value: \"Random\": must be 'OrderedReady' or 'Parallel'",
            "spec.updateStrategy: Invalid value: {\"Type\":\"Recreate\",\"RollingUpdate\":null}: must be 'RollingUpdate' or "
            "'OnDelete'",
            'spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: "Keep": supported values: "Retain", "Delete"',
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
            "spec.ordinals.start: Invalid value: -2: must be greater than or equal to 0",
            "spec.selector: Invalid value: {}: empty selector is invalid for statefulset",
            "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in StatefulSet is not Supported"]),
        (f"{{spec: {{{DATABASE}, updateStrategy: {{type: OnDelete, rollingUpdate: {{}}}}}}}}", [
            "spec.updateStrategy.rollingUpdate: Invalid value: {\"Partition\":0,\"MaxUnavailable\":null}: only allowed for "
            "updateStrategy 'RollingUpdate'"]),
        (f"{{spec: {{{DATABASE}, updateStrategy: {{rollingUpdate: {{maxUnavailable: 0, partition: -1}}}}}}}}", [
            "spec.updateStrategy.rollingUpdate.partition: Invalid value: -1: must be greater than or equal to 0",
            "spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: 0: cannot be 0"]),
        (f"{{spec: {{{DATABASE}, volumeClaimTemplates: [{{metadata: {{name: data}}, spec: {{accessModes: [ReadWriteOnce]}}}}]}}}}", [
            "spec.volumeClaimTemplates[0].spec.resources[storage]: Required value"]),
    ],
    "jobs.batch": [
        ("{spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}}}", []),
        ("{spec: {completions: 3, completionMode: Indexed, backoffLimitPerIndex: 1, maxFailedIndexes: 1, template: {spec: {restartPolicy: Never, "
         "containers: [{name: a, image: b}]}}, podFailurePolicy: {rules: [{action: FailIndex, onExitCodes: {operator: In, values: [1, 42]}}]}, "
         "successPolicy: {rules: [{succeededIndexes: 0-1}]}}}", []),
        ("{spec: {parallelism: -1, completionMode: Both, backoffLimitPerIndex: 1, managedBy: me, template: {spec: {containers: [{name: a, image: b}]}}}}", [
            "spec.parallelism: Invalid value: -1: must be greater than or equal to 0",
            'spec.managedBy: Invalid value: "me": must be a domain-prefixed path (such as "acme.io/foo")',
            'spec.completionMode: Unsupported value: "Both": supported values: "NonIndexed", "Indexed"',
            'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"']),
        ("{spec: {completionMode: Indexed, parallelism: 100001, template: {spec: {restartPolicy: OnFailure, containers: [{name: a, image: b}]}}}}", [
            "spec.completions: Required value: when completion mode is Indexed",
            "spec.parallelism: Invalid value: 100001: must be less than or equal to 100000 when completion mode is Indexed"]),
        *((f"{{spec: {{{spec}, template: {{spec: {{restartPolicy: {restarts}, containers: [{{name: a, image: b}}]}}}}}}}}", errors)
          for restarts, spec, errors in job_refusals.SPECS),
    ],
    "cronjobs.batch": [
        ("{spec: {schedule: '*/5 * * * *', timeZone: Asia/Shanghai, jobTemplate: {spec: {template: {spec: {restartPolicy: Never, "
         "containers: [{name: a, image: b}]}}}}}}", []),
        ("{spec: {schedule: '61 * * * *', timeZone: Nowhere, concurrencyPolicy: Never, startingDeadlineSeconds: -1, "
         "jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}}}}}", [
            'spec.schedule: Invalid value: "61 * * * *": end of range (61) above maximum (59): 61',
            "spec.startingDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0",
            'spec.timeZone: Invalid value: "Nowhere": unknown time zone Nowhere',
            'spec.concurrencyPolicy: Unsupported value: "Never": supported values: "Allow", "Forbid", "Replace"']),
        ("{spec: {schedule: 'TZ=UTC * * * * *', jobTemplate: {spec: {template: {spec: {restartPolicy: Never, "
         "containers: [{name: a, image: b}]}}}}}}", [
            'spec.schedule: Invalid value: "TZ=UTC * * * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field instead']),
        *((f"{{spec: {{schedule: '* * * * *', {spec}}}}}", errors) for spec, errors in job_refusals.CRON_JOBS),
    ],
    "resourcequotas": [
        ("{spec: {hard: {cpu: '1', count/widgets.example.com: 2, requests.example.com/gpu: 1, pods: 3}}}", []),
        ("{spec: {hard: {pods: 2}, scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, "
         "values: [a]}]}}}", []),
        ("{spec: {hard: {apples: '1'}}}", [
            'spec.hard[apples]: Invalid value: "apples": must be a standard resource type or fully qualified',
            'spec.hard[apples]: Invalid value: "apples": must be a standard resource for quota']),
        ("{spec: {hard: {a.example/b: '1.5'}}}", [
            'spec.hard[a.example/b]: Invalid value: "1500m": must be an integer']),
        ("{spec: {hard: {pods: '1.5', cpu: '-1'}}}", [
            'spec.hard[pods]: Invalid value: "1500m": must be an integer',
            'spec.hard[cpu]: Invalid value: "-1": must be greater than or equal to 0']),
        ("{spec: {hard: {services: 1}, scopes: [BestEffort, NotBestEffort]}}", [
            'spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: unsupported scope applied to resource',
            'spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: unsupported scope applied to resource',
            'spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: conflicting scopes']),
        ("{spec: {hard: {pods: 1}, scopes: [Sometimes]}}", ['spec.scopes: Invalid value: ["Sometimes"]: unsupported scope']),
        ("{spec: {scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In}]}}}", [
            "spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when `operator` is "
            "'In' or 'NotIn' for scope selector"]),
        ("{spec: {scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: Is}]}}}", [
            'spec.scopeSelector.matchExpressions.operator: Invalid value: "Is": not a valid selector operator']),
    ],
    "limitranges": [
        ("{spec: {limits: [{type: Container, max: {cpu: 2}, min: {cpu: 100m}}, {type: Pod, max: {memory: 1Gi}}]}}", []),
        ("{spec: {limits: [{type: Cup}]}}", [
            'spec.limits[0].type: Invalid value: "Cup": must be a standard limit type or fully qualified']),
        ("{spec: {limits: [{type: Pod, default: {cpu: 1}}, {type: Pod}]}}", [
            "spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'",
            'spec.limits[1].type: Duplicate value: "Pod"']),
        ("{spec: {limits: [{type: Pod, min: {cpu: '2'}, max: {cpu: '1'}}]}}", [
            'spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1']),
        ("{spec: {limits: [{type: PersistentVolumeClaim}]}}", [
            "spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but neither was "
            "provided"]),
        ("{spec: {limits: [{type: Container, maxLimitRequestRatio: {cpu: 500m}}]}}", [
            'spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "500m": ratio 500m is less than 1']),
        ("{spec: {limits: [{type: Container, max: {storage: 1}}]}}", [
            'spec.limits[0].max[storage]: Invalid value: "storage": must be a standard resource for containers',
            'spec.limits[0].default[storage]: Invalid value: "storage": must be a standard resource for containers',
            'spec.limits[0].defaultRequest[storage]: Invalid value: "storage": must be a standard resource for containers',
        ]),
        # Quotas put `requests.` before the name, which must then still be a domain.
        (f"{{spec: {{limits: [{{type: Pod, max: {{{LONG_DOMAIN}/gpu: 1}}}}]}}}}", [
            f'spec.limits[0].max[{LONG_DOMAIN}/gpu]: Invalid value: "{LONG_DOMAIN}/gpu": doesn\'t follow extended '
            "resource name standard"]),
    ],
    "poddisruptionbudgets.policy": [
        ("{}", []),
        ("{spec: {minAvailable: 100%, selector: {}, unhealthyPodEvictionPolicy: AlwaysAllow}}", []),
        ("{spec: {minAvailable: -1, maxUnavailable: 101%, unhealthyPodEvictionPolicy: Never}}", [
            'spec: Invalid value: {"MinAvailable":-1,"Selector":null,"MaxUnavailable":"101%",'
            '"UnhealthyPodEvictionPolicy":"Never"}: '
            "minAvailable and maxUnavailable cannot be both set",
            "spec.minAvailable: Invalid value: -1: must be greater than or equal to 0",
            'spec.maxUnavailable: Invalid value: "101%": must not be greater than 100%',
            'spec.unhealthyPodEvictionPolicy: Unsupported value: "Never": supported values: "AlwaysAllow", '
            '"IfHealthyBudget"']),
        ("{spec: {selector: {matchExpressions: [{key: a, operator: In}]}}}", [
            "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or "
            "'NotIn'"]),
    ],
    "controllerrevisions.apps": [
        ("{data: {spec: {}}, revision: 3}", []),
        ("{revision: -1}", [
            "data: Required value: data is mandatory",
            "revision: Invalid value: -1: must be greater than or equal to 0"]),
    ],
    "horizontalpodautoscalers.autoscaling": [
        (f"{{spec: {{{WEB}, maxReplicas: 3}}}}", []),
        ("{spec: {scaleTargetRef: {kind: ReplicationController, apiVersion: v1, name: a}, maxReplicas: 3}}", []),
        ("{spec: {minReplicas: 0}}", [
            "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1",
            "spec.maxReplicas: Invalid value: 0: must be greater than 0",
            "spec.scaleTargetRef.kind: Required value",
            "spec.scaleTargetRef.name: Required value",
            'spec.scaleTargetRef.apiVersion: Invalid value: "": apiVersion must specify API group']),
        ("{spec: {minReplicas: 4, maxReplicas: 3, scaleTargetRef: {kind: a/b, apiVersion: a/b/c, name: c}}}", [
            "spec.maxReplicas: Invalid value: 3: must be greater than or equal to `minReplicas`",
            "spec.scaleTargetRef.kind: Invalid value: \"a/b\": may not contain '/'",
            'spec.scaleTargetRef.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c']),
        (f"{{spec: {{{WEB}, maxReplicas: 3, metrics: [{{type: Resource, resource: {{name: memory, target: "
         "{type: AverageValue, averageValue: 1Gi}}}, {type: Pods, pods: {metric: {name: hits}, target: "
         "{type: AverageValue, averageValue: 10}}}]}}", []),
        (f"{{spec: {{{WEB}, maxReplicas: 3, metrics: [{{type: Disk}}, {{type: Pods, object: {{}}}}]}}}}", [
            f'spec.metrics[0].type: Unsupported value: "Disk": supported values: {METRIC_TYPES}',
            f'spec.metrics[0].type: Unsupported value: "Disk": supported values: {METRIC_TYPES}',
            "spec.metrics[1].object.describedObject.kind: Required value",
            "spec.metrics[1].object.describedObject.name: Required value",
            "spec.metrics[1].object.metric.name: Required value: must specify a metric name",
            "spec.metrics[1].object.target.type: Required value: must specify a metric target type",
            'spec.metrics[1].object.target.type: Invalid value: "": must be either Utilization, Value, or AverageValue',
            "spec.metrics[1].object.target.averageValue: Required value: must set either a target value or averageValue",
            "spec.metrics[1].pods: Required value: must populate information for the given metric source"]),
        (f"{{spec: {{{WEB}, maxReplicas: 3, metrics: [{{type: External, external: {{metric: {{name: a/b}}, target: "
         "{type: Value, value: 0, averageValue: 2}}, pods: {}}]}}", [
            "spec.metrics[0].external.metric.name: Invalid value: \"a/b\": may not contain '/'",
            "spec.metrics[0].external.target.value: Invalid value: 0: must be positive",
            "spec.metrics[0].external.target.value: Forbidden: may not set both a target value for metric and a per-pod "
            "target",
            "spec.metrics[0].pods: Forbidden: must populate the given metric source only"]),
        (f"{{spec: {{{WEB}, maxReplicas: 3, metrics: [{{type: External, external: {{metric: {{name: a}}, target: "
         "{type: Value}}}, {type: Pods, pods: {metric: {name: a}, target: {type: Value, value: 1}}}]}}", [
            "spec.metrics[0].external.target.averageValue: Required value: must set either a target value for metric or "
            "a per-pod target",
            "spec.metrics[1].pods.target.averageValue: Required value: must specify a positive target averageValue"]),
        (f"{{spec: {{{WEB}, maxReplicas: 3, metrics: [{{type: ContainerResource, containerResource: {{name: pods, "
         "container: a, target: {type: AverageValue, averageValue: 1}}}]}}", [
            'spec.metrics[0].containerResource.name: Invalid value: "pods": must be a standard resource for containers']),
        (f"{{spec: {{{WEB}, maxReplicas: 3, metrics: [{{type: ContainerResource, containerResource: {{target: "
         "{type: Utilization, averageUtilization: 0, averageValue: 1}}}]}}", [
            "spec.metrics[0].containerResource.name: Required value: must specify a resource name",
            "spec.metrics[0].containerResource.container: Required value: must specify a container",
            "spec.metrics[0].containerResource.target.averageUtilization: Invalid value: 0: must be greater than 0",
            "spec.metrics[0].containerResource.target.averageValue: Forbidden: may not set both a target raw value and "
            "a target utilization"]),
        (f"{{spec: {{{WEB}, maxReplicas: 3, metrics: [{{type: ContainerResource, containerResource: {{name: cpu, "
         "container: A, target: {type: Utilization}}}, {type: Resource, resource: {target: {type: Utilization}}}]}}", [
            f'spec.metrics[0].containerResource.container: Invalid value: "A": {LABEL}',
            "spec.metrics[0].containerResource.target.averageUtilization: Required value: must set either a target raw "
            "value or a target utilization",
            "spec.metrics[1].resource.name: Required value: must specify a resource name",
            "spec.metrics[1].resource.target.averageUtilization: Required value: must set either a target raw value or "
            "a target utilization"]),
        (f"{{spec: {{{WEB}, maxReplicas: 3, metrics: [{{type: Object, object: {{describedObject: {{kind: a, name: b, "
         "apiVersion: a/b/c}, metric: {name: c}, target: {type: Value, value: 1}}}]}}", [
            'spec.metrics[0].object.describedObject.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: '
            "a/b/c"]),
        (f"{{spec: {{{WEB}, maxReplicas: 3, behavior: {{scaleUp: {{stabilizationWindowSeconds: -1, selectPolicy: Most, "
         "policies: [{type: Nodes, value: 0, periodSeconds: 1801}]}, scaleDown: {stabilizationWindowSeconds: 3601, "
         "policies: [], tolerance: '-1'}}}}", [
            "spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: -1: must be greater than or equal to zero",
            'spec.behavior.scaleUp.selectPolicy: Unsupported value: "Most": supported values: "Disabled", "Max", "Min"',
            'spec.behavior.scaleUp.policies[0].type: Unsupported value: "Nodes": supported values: "Percent", "Pods"',
            "spec.behavior.scaleUp.policies[0].value: Invalid value: 0: must be greater than zero",
            "spec.behavior.scaleUp.policies[0].periodSeconds: Invalid value: 1801: must be less than or equal to 1800",
            "spec.behavior.scaleDown.stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to "
            "3600",
            "spec.behavior.scaleDown.policies: Required value: must specify at least one Policy",
            'spec.behavior.scaleDown.tolerance: Invalid value: "-1": must be greater than or equal to 0']),
    ],
    "podtemplates": [
        ("{template: {spec: {containers: [{name: a, image: b}]}}}", []),
        ("{}", ["template.spec.containers: Required value"]),
    ],
    "runtimeclasses.node.k8s.io": [
        ("{handler: gvisor, overhead: {podFixed: {cpu: 100m}}}", []),
        ("{handler: A}", [f'handler: Invalid value: "A": {LABEL}']),
        ("{handler: a, overhead: {podFixed: {cpu: '-1'}}}", [
            'overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0']),
        ("{handler: a, scheduling: {tolerations: [{operator: Exists}, {operator: Exists}]}}", [
            'scheduling.tolerations[1]: Duplicate value: {"Key":"","Operator":"Exists","Value":"","Effect":"",'
            '"TolerationSeconds":null}']),
    ],
    "priorityclasses.scheduling.k8s.io": [
        ("{value: 1000000000}", []),
        ("{metadata: {name: system-node-critical}, value: 2000001000}", []),
        ("{value: 1000000001}", ["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"]),
        ("{metadata: {name: system-mine}, value: 1}", [
            "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. "
            "error: system-mine is not a known system priority class"]),
        ("{metadata: {name: system-node-critical}, value: 1}", [
            "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. "
            "error: value of system-node-critical PriorityClass must be 2000001000"]),
        ("{preemptionPolicy: Always}", [
            'preemptionPolicy: Unsupported value: "Always": supported values: "PreemptLowerPriority", "Never"']),
    ],
    "flowschemas.flowcontrol.apiserver.k8s.io": [
        ("{spec: {priorityLevelConfiguration: {name: a}}}", []),
        ("{spec: {matchingPrecedence: 1}}", [
            "spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1",
            "spec.priorityLevelConfiguration.name: Required value: must reference a priority level"]),
        ("{spec: {priorityLevelConfiguration: {name: a}, rules: [{}]}}", [
            "spec.rules[0].subjects: Required value: subjects must contain at least one value",
            "spec.rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be non-empty"]),
        ("{spec: {priorityLevelConfiguration: {name: a}, rules: [{subjects: [{kind: User, group: {name: b}}], "
         "nonResourceRules: [{verbs: [get], nonResourceURLs: ['/a*', 'b', '/c//d']}]}]}}", [
            "spec.rules[0].subjects[0].user: Required value: user is required when subject kind is 'User'",
            "spec.rules[0].subjects[0].group: Forbidden: group is forbidden when subject kind is not 'Group'",
            'spec.rules[0].nonResourceRules[0].nonResourceURLs[0]: Invalid value: "/a*": wildcard can only do suffix '
            "matching",
            'spec.rules[0].nonResourceRules[0].nonResourceURLs[1]: Invalid value: "b": must start with slash',
            'spec.rules[0].nonResourceRules[0].nonResourceURLs[2]: Invalid value: "/c//d": must not contain double '
            "slash"]),
        ("{spec: {priorityLevelConfiguration: {name: a}, rules: [{subjects: [{kind: ServiceAccount, serviceAccount: "
         "{name: '*'}}], resourceRules: [{verbs: ['*', get], resources: [pods]}]}]}}", [
            "spec.rules[0].subjects[0].serviceAccount.namespace: Required value: must specify namespace for service "
            "account",
            "spec.rules[0].resourceRules[0].verbs: Invalid value: [\"*\",\"get\"]: if '*' is present, must not specify "
            "other verbs",
            "spec.rules[0].resourceRules[0].apiGroups: Required value: resource rules must supply at least one api "
            "group",
            "spec.rules[0].resourceRules[0].namespaces: Required value: resource rules that are not cluster scoped must "
            "supply at least one namespace"]),
    ],
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": [
        ("{spec: {type: Limited, limited: {limitResponse: {type: Reject}}}}", []),
        ("{spec: {type: Exempt}}", [
            "spec.type: Invalid value: \"Exempt\": type must be 'Exempt' if and only if name is 'exempt'"]),
        ("{spec: {type: Limited}}", ["spec.limited: Required value: must not be empty when type is Limited"]),
        ("{spec: {type: Limited, limited: {nominalConcurrencyShares: -1, limitResponse: {type: Queue}}}}", [
            "spec.limited.nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer",
            "spec.limited.limitResponse.queuing: Required value: must not be empty if limited.limitResponse.type is "
            "Limited"]),
        (f"{{spec: {{type: Limited, limited: {{{QUEUE % (8, 9)}}}}}}}", [
            "spec.limited.limitResponse.queuing.handSize: Invalid value: 9: should not be greater than queues (8)"]),
        (f"{{spec: {{type: Limited, limited: {{{QUEUE % (512, 8)}}}}}}}", [
            "spec.limited.limitResponse.queuing.handSize: Invalid value: 8: required entropy bits of deckSize 512 and "
            "handSize 8 should not be greater than 60"]),
    ],
}  # fmt: skip

VOLUME = "accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}"
STORAGE = {
    "persistentvolumes": [
        *volume_refusals.refused_volumes(VOLUME),
        (f"{{spec: {{{VOLUME}, hostPath: {{path: /a}}}}}}", []),
        (f"{{spec: {{{VOLUME}, csi: {{driver: a.io, volumeHandle: b}}, volumeAttributesClassName: gold}}}}", []),
        ("{}", [
            "spec.accessModes: Required value: at least 1 access mode is required",
            "spec.capacity: Required value",
            'spec.capacity: Unsupported value: null: supported values: "storage"',
            "spec: Required value: must specify a volume type"]),
        (f"{{spec: {{{VOLUME}, hostPath: {{path: /a}}, nfs: {{server: a, path: /b}}}}}}", [
            "spec.nfs: Forbidden: may not specify more than 1 volume type"]),
        (f"{{spec: {{{VOLUME}, local: {{path: a/../b}}}}}}", [
            "spec.local.path: Invalid value: \"a/../b\": must not contain '..'",
            "spec.nodeAffinity: Required value: Local volume requires node affinity"]),
        (f"{{spec: {{{VOLUME}, hostPath: {{path: /}}, persistentVolumeReclaimPolicy: Recycle, volumeMode: Tape}}}}", [
            "spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'",
            'spec.volumeMode: Unsupported value: "Tape": supported values: "Block", "Filesystem"']),
        (f"{{spec: {{{VOLUME}, csi: {{driver: a.io, volumeHandle: b, nodeExpandSecretRef: {{name: A, namespace: a.b}}, "
         "controllerExpandSecretRef: {}, nodeStageSecretRef: {}}}}", [
            "spec.csi.controllerExpandSecretRef.name: Required value",
            "spec.csi.controllerExpandSecretRef.namespace: Required value",
            f'spec.csi.nodeExpandSecretRef.name: Invalid value: "A": {SUBDOMAIN}',
            'spec.csi.nodeExpandSecretRef.namespace: Invalid value: "a.b": must not contain dots']),
    ],
    "persistentvolumeclaims": [
        ("{spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}", []),
        ("{}", [
            "spec.accessModes: Required value: at least 1 access mode is required",
            "spec.resources[storage]: Required value"]),
        ("{spec: {accessModes: [ReadWriteOncePod, ReadOnlyMany], resources: {requests: {storage: '0'}}}}", [
            "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
            'spec.resources[storage]: Invalid value: "0": must be greater than zero']),
        ("{spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}, dataSource: {kind: Pod, name: a}}}", []),  # dropped
        ("{spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}, dataSource: {kind: PersistentVolumeClaim, name: a}, "
         "dataSourceRef: {kind: PersistentVolumeClaim, name: b}}}", ["spec: Invalid value: {}: must match dataSourceRef"]),
        ("{spec: {accessModes: [RW], resources: {requests: {storage: 1Gi}}, dataSourceRef: {kind: Pod, name: a}}}", [
            'spec.accessModes: Unsupported value: "RW": supported values: "ReadOnlyMany", "ReadWriteMany", '
            '"ReadWriteOnce", "ReadWriteOncePod"',
            "spec.dataSource: Invalid value: \"Pod\": must be 'PersistentVolumeClaim' when referencing the default "
            "apiGroup",
            "spec.dataSourceRef: Invalid value: \"Pod\": must be 'PersistentVolumeClaim' when referencing the default "
            "apiGroup"]),
    ],
    "storageclasses.storage.k8s.io": [
        ("{provisioner: example.com/disk}", []),
        ("{}", ["provisioner: Required value"]),
        ("{provisioner: a, reclaimPolicy: Recycle, volumeBindingMode: Later}", [
            'reclaimPolicy: Unsupported value: "Recycle": supported values: "Delete", "Retain"',
            'volumeBindingMode: Unsupported value: "Later": supported values: "Immediate", "WaitForFirstConsumer"']),
        ("{provisioner: a, allowedTopologies: [{matchLabelExpressions: [{key: zone, values: [a, a]}]}]}", [
            'allowedTopologies[0].matchLabelExpressions[0].values[1]: Duplicate value: "a"']),
        ("{provisioner: a, allowedTopologies: [{}]}", ['allowedTopologies[0].matchLabelExpressions: Duplicate value: ""']),
    ],
    "volumeattachments.storage.k8s.io": [
        ("{spec: {attacher: a.io, nodeName: n, source: {persistentVolumeName: v}}}", []),
        ("{spec: {attacher: a.io, nodeName: n}}", [
            "spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName"]),
        ("{spec: {attacher: a.io, nodeName: n, source: {inlineVolumeSpec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, "
         "hostPath: {path: /a}}}}}", [
            "spec.source.inlineVolumeSpec.capacity: Forbidden: may not be specified in the context of inline volumes",
            "spec.source.inlineVolumeSpec.csi: Required value: has to be specified in the context of inline volumes"]),
    ],
    "volumeattributesclasses.storage.k8s.io": [
        ("{driverName: a.io, parameters: {iops: '1'}}", []),
        ("{driverName: a.io}", ["parameters: Required value: must contain at least one key/value pair"]),
    ],
    "csidrivers.storage.k8s.io": [
        ("{}", []),
        ("{spec: {serviceAccountTokenInSecrets: true, tokenRequests: [{}]}}", []),
        ("{spec: {serviceAccountTokenInSecrets: false}}", [
            "spec.serviceAccountTokenInSecrets: Invalid value: false: serviceAccountTokenInSecrets is set but no tokenRequests are "
            "specified"]),
        ("{spec: {fsGroupPolicy: A, volumeLifecycleModes: [B], tokenRequests: [{audience: a}, {audience: a}]}}", [
            'spec.fsGroupPolicy: Unsupported value: "A": supported values: "File", "None", "ReadWriteOnceWithFSType"',
            'spec.tokenRequests[1].audience: Duplicate value: "a"',
            'spec.volumeLifecycleModes: Unsupported value: "B": supported values: "Ephemeral", "Persistent"']),
    ],
    "csinodes.storage.k8s.io": [
        ("{spec: {drivers: [{name: a.io, nodeID: n, allocatable: {count: 3}}]}}", []),
        ("{spec: {drivers: [{name: a.io, nodeID: ''}, {name: a.io, nodeID: b}]}}", [
            "spec.drivers[0].nodeID: Required value", 'spec.drivers[1].name: Duplicate value: "a.io"']),
    ],
    "csistoragecapacities.storage.k8s.io": [
        ("{storageClassName: gold, capacity: 1Gi}", []),
        ("{storageClassName: gold, capacity: '-1'}", [
            'capacity: Invalid value: "-1": must be greater than or equal to 0']),
    ],
}  # fmt: skip

POOL = "driver: a.io, pool: {name: p, resourceSliceCount: 1}"
DEVICES = {
    "deviceclasses.resource.k8s.io": [
        ("{spec: {selectors: [{cel: {expression: 'true'}}], extendedResourceName: example.com/gpu}}", []),
        ("{spec: {selectors: [{}], config: [{}], extendedResourceName: cpu}}", [
            "spec.selectors[0].cel: Required value", "spec.config[0].opaque: Required value",
            'spec.extendedResourceName: Invalid value: "cpu": must be a valid extended resource name']),
        *device_refusals.CLASSES,
    ],
    "resourceclaims.resource.k8s.io": [
        (f"{{spec: {{devices: {{requests: [{{name: a, {REQUEST}}}]}}}}}}", []),
        ("{}", []),
        *device_refusals.CLAIMS,
        (f"{{spec: {{devices: {{requests: [{{name: a}}, {{name: a, {REQUEST}}}]}}}}}}", [
            "spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required",
            'spec.devices.requests[1]: Duplicate value: "a"']),
        ("{spec: {devices: {requests: [{name: a, exactly: {allocationMode: All, count: 2}}]}}}", [
            "spec.devices.requests[0].exactly.deviceClassName: Required value",
            "spec.devices.requests[0].exactly.count: Invalid value: 2: must not be specified when allocationMode is "
            "'All'"]),
        (f"{{spec: {{devices: {{requests: [{{name: a, {REQUEST}}}], constraints: [{{requests: [b], "
         "matchAttribute: a.io/x}, {}]}}}", [
            'spec.devices.constraints[0].requests[0]: Invalid value: "b": must be the name of a request in the claim or '
            "the name of a request and a subrequest separated by '/'",
            'spec.devices.constraints[1]: Required value: exactly one of "matchAttribute" or "distinctAttribute" is '
            "required, but multiple fields are set"]),
    ],
    "resourceclaimtemplates.resource.k8s.io": [
        (f"{{spec: {{spec: {{devices: {{requests: [{{name: a, {REQUEST}}}]}}}}}}}}", []),
        ("{spec: {spec: {devices: {requests: [{name: a}]}}}}", [
            "spec.spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required"]),
    ],
    "resourceslices.resource.k8s.io": [
        (f"{{spec: {{{POOL}, nodeName: n, devices: [{{name: d, attributes: {{model: {{string: x}}}}}}]}}}}", []),
        (f"{{spec: {{{POOL}}}}}", [
            "spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is "
            "required"]),
        (f"{{spec: {{{POOL}, nodeName: n, allNodes: true, sharedCounters: [{{name: a}}], devices: [{{name: d}}]}}}}", [
            'spec: Invalid value: "{`nodeName`, `allNodes`}": exactly one of `nodeName`, `nodeSelector`, `allNodes`, '
            "`perDeviceNodeSelection` is required, but multiple fields are set",
            'spec: Invalid value: "": only one of `sharedCounters` or `devices` is allowed',
            "spec.sharedCounters[0].counters: Required value"]),
        (f"{{spec: {{{POOL}, nodeName: n, devices: [{{name: d, attributes: {{a-b: {{version: x}}}}}}]}}}}", [
            'spec.devices[0].attributes[a-b]: Invalid value: "a-b": a valid C identifier must start with alphabetic character '
            "or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or "
            "'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')",
            'spec.devices[0].attributes[a-b].version: Invalid value: "x": must be a string compatible with semver.org '
            "spec 2.0.0"]),
        *device_refusals.SLICES,
    ],
}  # fmt: skip

_ROLE_RULES = [
    ("{}", []),
    ("{rules: [{verbs: [get], apiGroups: [''], resources: [pods, pods/log], resourceNames: [a]}]}", []),
    (
        "{rules: [{}]}",
        [
            "rules[0].verbs: Required value: verbs must contain at least one value",
            "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
            "rules[0].resources: Required value: resource rules must supply at least one resource",
        ],
    ),
]
_BOTH = "rules cannot apply to both regular resources and non-resource URLs"
_TO_ROLE, _TO_CLUSTER_ROLE = "roleRef: {kind: Role, name: a}", "roleRef: {kind: ClusterRole, name: a}"
_BINDING = [
    (f"{{{_TO_CLUSTER_ROLE}, subjects: [{{kind: User, name: 'a b'}}, {{kind: Group, name: 'system:x'}}]}}", []),
    ("{roleRef: {apiGroup: a.io, kind: X}}", None),
    (
        f"{{{_TO_CLUSTER_ROLE}, subjects: [{{kind: Pod, name: a}}]}}",
        ['subjects[0].kind: Unsupported value: "Pod": supported values: "ServiceAccount", "User", "Group"'],
    ),
    (
        f"{{{_TO_CLUSTER_ROLE}, subjects: [{{kind: User}}, {{kind: Group, apiGroup: a.io, name: b}}]}}",
        [
            "subjects[0].name: Required value",
            'subjects[0].name: Invalid value: "": user name cannot be empty',
            'subjects[1].apiGroup: Unsupported value: "a.io": supported values: "rbac.authorization.k8s.io"',
        ],
    ),
    (
        f"{{{_TO_CLUSTER_ROLE}, subjects: [{{kind: ServiceAccount, namespace: n, name: A, apiGroup: b}}]}}",
        [
            f'subjects[0].name: Invalid value: "A": {SUBDOMAIN}',
            'subjects[0].apiGroup: Unsupported value: "b": supported values: ""',
        ],
    ),
]


def _bindings(role_kinds):
    return [
        (
            text,
            errors
            if errors is not None
            else [
                'roleRef.apiGroup: Unsupported value: "a.io": supported values: "rbac.authorization.k8s.io"',
                f'roleRef.kind: Unsupported value: "X": supported values: {role_kinds}',
                "roleRef.name: Required value",
            ],
        )
        for text, errors in _BINDING
    ]


RBAC = {
    "roles.rbac.authorization.k8s.io": [
        *_ROLE_RULES,
        ("{rules: [{verbs: [get], nonResourceURLs: [/a], resources: [pods]}]}", [
            'rules[0].nonResourceURLs: Invalid value: ["/a"]: namespaced rules cannot apply to non-resource URLs',
            f'rules[0].nonResourceURLs: Invalid value: ["/a"]: {_BOTH}']),
    ],
    "clusterroles.rbac.authorization.k8s.io": [
        *_ROLE_RULES,
        ("{rules: [{verbs: [get], nonResourceURLs: [/a]}]}", []),
        ("{rules: [{verbs: [get], nonResourceURLs: [/a], apiGroups: ['']}]}", [
            f'rules[0].nonResourceURLs: Invalid value: ["/a"]: {_BOTH}']),
        ("{aggregationRule: {clusterRoleSelectors: [{matchLabels: {a: b}}]}}", []),
        ("{aggregationRule: {}}", [
            "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if "
            "aggregationRule is non-nil"]),
        ("{aggregationRule: {clusterRoleSelectors: [{matchExpressions: [{key: a, operator: In}]}]}}", [
            "aggregationRule.clusterRoleSelectors[0].matchExpressions[0].values: Required value: must be specified when "
            "`operator` is 'In' or 'NotIn'",
            "aggregationRule.clusterRoleSelectors[0]: Invalid value: null: invalid label selector."]),
    ],
    "rolebindings.rbac.authorization.k8s.io": [
        *_bindings('"Role", "ClusterRole"'),
        (f"{{{_TO_ROLE}, subjects: [{{kind: ServiceAccount, name: a}}]}}", []),
    ],
    "clusterrolebindings.rbac.authorization.k8s.io": [
        *_bindings('"ClusterRole"'),
        (f"{{{_TO_ROLE}}}", ['roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"']),
        (f"{{{_TO_CLUSTER_ROLE}, subjects: [{{kind: ServiceAccount, name: a}}]}}", [
            "subjects[0].namespace: Required value"]),
    ],
}  # fmt: skip

_PRIORITIES = "groupPriorityMinimum: 1000, versionPriority: 15"
_REMOTE = "service: {namespace: default, name: api}"
API_SERVICES = {
    "apiservices.apiregistration.k8s.io": [
        (f"{{metadata: {{name: v1.a.io}}, spec: {{group: a.io, version: v1, {_PRIORITIES}, {_REMOTE}}}}}", []),
        (f"{{metadata: {{name: v1.}}, spec: {{version: v1, {_PRIORITIES}}}}}", []),
        ("{metadata: {name: v1.a}, spec: {group: A, version: '1'}}", [
            'metadata.name: Invalid value: "v1.a": must be `spec.version+"."+spec.group`: "1.A"',
            f'spec.group: Invalid value: "A": {SUBDOMAIN}',
            "spec.version: Invalid value: \"1\": a DNS-1035 label must consist of lower case alphanumeric characters or "
            "'-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or "
            "'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
            "spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000",
            "spec.versionPriority: Invalid value: 0: must be positive and less than 1000"]),
        (f"{{metadata: {{name: v2.}}, spec: {{version: v2, {_PRIORITIES}}}}}", [
            "spec.group: Required value: only v1 may have an empty group and it better be legacy kube"]),
        (f"{{metadata: {{name: v1.a}}, spec: {{version: v1, group: a, {_PRIORITIES}, caBundle: eA==, "
         "insecureSkipTLSVerify: true}}", [
            'spec.caBundle: Invalid value: "1 bytes": local APIServices may not have a caBundle',
            "spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify"]),
        (f"{{metadata: {{name: v1.a}}, spec: {{version: v1, group: a, {_PRIORITIES}, caBundle: eA==, "
         "insecureSkipTLSVerify: true, service: {port: 70000}}}", [
            "spec.service.namespace: Required value",
            "spec.service.name: Required value",
            "spec.service.port: Invalid value: 70000: port is not valid: must be between 1 and 65535, inclusive",
            "spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present"]),
    ],
}  # fmt: skip

ALL = (
    NETWORKING
    | CLASSES
    | STORAGE
    | DEVICES
    | RBAC
    | API_SERVICES
    | webhook_refusals.REFUSALS
    | certificate_requests.REFUSALS
    | policy_refusals.REFUSALS
)

_INGRESS_CLASS = ["{spec: {controller: a/b}}", "{spec: {controller: a/c}}"]
_NEW_REFERENCE = '{"APIGroup":"rbac.authorization.k8s.io","Kind":"ClusterRole","Name":"b"}'
_AFFINITY = "nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: %s, operator: Exists}]}]}}"
UPDATES = [
    *webhook_refusals.UPDATES,
    *certificate_requests.UPDATES,
    *policy_refusals.UPDATES,
    *job_refusals.UPDATES,
    *(
        (f"{plural}.rbac.authorization.k8s.io", f"{{{_TO_CLUSTER_ROLE}}}", "{roleRef: {kind: ClusterRole, name: b}}", [
            f"roleRef: Invalid value: {_NEW_REFERENCE}: cannot change roleRef"])
        for plural in ("rolebindings", "clusterrolebindings")
    ),
    ("rolebindings.rbac.authorization.k8s.io", f"{{{_TO_CLUSTER_ROLE}}}",
     f"{{{_TO_CLUSTER_ROLE}, subjects: [{{kind: User, name: a}}]}}", []),
    ("ingressclasses.networking.k8s.io", *_INGRESS_CLASS, [
        'spec.controller: Invalid value: "a/c": field is immutable']),
    ("servicecidrs.networking.k8s.io", "{spec: {cidrs: [10.0.0.0/16]}}", "{spec: {cidrs: [10.0.0.0/16, 'fd00::/112']}}",
     []),
    ("networkpolicies.networking.k8s.io", "{spec: {egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8}}]}]}}",
     "{spec: {egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8}}, {ipBlock: {cidr: 10.0.0.2/8}}]}]}}", [
        'spec.egress[0].to[1].ipBlock.cidr: Invalid value: "10.0.0.2/8": must not have bits set beyond the prefix length']),
    ("servicecidrs.networking.k8s.io", "{spec: {cidrs: [10.0.0.0/16]}}", "{spec: {cidrs: [10.1.0.0/16]}}", [
        'spec.cidrs[0]: Invalid value: "10.1.0.0/16": field is immutable']),
    ("ipaddresses.networking.k8s.io", "{spec: {parentRef: {resource: a, name: b}}}",
     "{spec: {parentRef: {resource: a, name: c}}}", [
        'spec.parentRef: Invalid value: {"resource":"a","name":"c"}: field is immutable']),
    ("priorityclasses.scheduling.k8s.io", "{value: 1}", "{value: 2, preemptionPolicy: Never}", [
        "value: Forbidden: may not be changed in an update.",
        'preemptionPolicy: Invalid value: "Never": field is immutable']),
    ("runtimeclasses.node.k8s.io", "{handler: a}", "{handler: b}", ['handler: Invalid value: "b": field is immutable']),
    ("storageclasses.storage.k8s.io", "{provisioner: a}", "{provisioner: b, volumeBindingMode: WaitForFirstConsumer}", [
        "provisioner: Forbidden: updates to provisioner are forbidden.",
        'volumeBindingMode: Invalid value: "WaitForFirstConsumer": field is immutable']),
    ("csidrivers.storage.k8s.io", "{}", "{spec: {attachRequired: false, podInfoOnMount: true}}", [
        "spec.attachedRequired: Invalid value: false: field is immutable"]),
    ("csinodes.storage.k8s.io", "{spec: {drivers: [{name: a.io, nodeID: n, allocatable: {count: 3}}]}}",
     "{spec: {drivers: [{name: a.io, nodeID: n, allocatable: {count: 4}}]}}", []),
    ("statefulsets.apps", f"{{spec: {{{DATABASE}}}}}", f"{{spec: {{{DATABASE}, replicas: 5, minReadySeconds: 3, "
     "ordinals: {start: 1}, revisionHistoryLimit: 1, updateStrategy: {type: OnDelete}, "
     "persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete}}}", []),
    ("statefulsets.apps", f"{{spec: {{{DATABASE}}}}}", f"{{spec: {{{DATABASE}, serviceName: other}}}}", [
        "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
        "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"]),
    ("persistentvolumes", f"{{spec: {{{VOLUME}, hostPath: {{path: /a}}}}}}",
     f"{{spec: {{{VOLUME}, hostPath: {{path: /b}}}}}}", [
        "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation"]),
    ("persistentvolumes", f"{{spec: {{{VOLUME}, hostPath: {{path: /a}}, {_AFFINITY % 'beta.kubernetes.io/os'}}}}}",
     f"{{spec: {{{VOLUME}, hostPath: {{path: /a}}, {_AFFINITY % 'kubernetes.io/os'}}}}}", []),
    ("persistentvolumes", f"{{spec: {{{VOLUME}, hostPath: {{path: /a}}, {_AFFINITY % 'a'}}}}}", f"{{spec: {{{VOLUME}, hostPath: {{path: /a}}}}}}", [
        "nodeAffinity: Invalid value: null: field is immutable, except for updating from beta label to GA"]),
    ("persistentvolumeclaims", f"{{{CLAIM}}}", f"{{{CLAIM.replace('spec: {', 'spec: {volumeAttributesClassName: gold, ')}}}", [
        "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for "
        "bound claims"]),
    ("persistentvolumeclaims", "{spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}",
     "{spec: {accessModes: [ReadOnlyMany], resources: {requests: {storage: 1Gi}}}}", [
        "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for "
        "bound claims"]),
    ("resourceclaims.resource.k8s.io", "{}", "{spec: {devices: {requests: [{name: a}]}}}", [
        'spec: Invalid value: {"devices":{"requests":[{"name":"a"}]}}: field is immutable']),
    ("volumeattributesclasses.storage.k8s.io", "{driverName: a, parameters: {b: c}}",
     "{driverName: a, parameters: {b: d}}", ["parameters: Forbidden: updates to parameters are forbidden."]),
]  # fmt: skip
