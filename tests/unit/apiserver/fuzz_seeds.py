"""Objects that the server accepts, by the URL of their create: what random requests begin with."""

from __future__ import annotations

from typing import Any

from tests.unit.apiserver.resources.certificate_requests import make_request
from tests.unit.apiserver.test_fuzz import META, OBJECTS, POD_SPEC, SELECTING, SUBRESOURCES

_RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}
_HOOK = {
    "name": "a.b.example",
    "clientConfig": {"url": "https://127.0.0.1:1/"},
    "rules": [_RULE],
    "failurePolicy": "Ignore",
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
    "timeoutSeconds": 1,
    "matchConditions": [{"name": "m", "expression": "object.metadata.name != 'q'"}],
    "namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]},
}
_POLICY = {
    "matchConstraints": {"resourceRules": [_RULE]},
    "variables": [{"name": "x", "expression": "object.metadata.name"}],
    "matchConditions": [{"name": "m", "expression": "request.operation == 'CREATE'"}],
}
_BINDING = {"policyName": "x", "matchResources": {"resourceRules": [_RULE]}}
_XS = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "x": {"type": "integer", "minimum": 0, "default": 1},
                "s": {"type": "string", "format": "date-time", "maxLength": 30},
                "xs": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["k"],
                    "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}},
                },
                "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "p": {"x-kubernetes-int-or-string": True},
            },
            # The length of `string()` is unknown: with `+` its cost has no bound, as in Kubernetes (issue 124234).
            "x-kubernetes-validations": [{"rule": "self.x < 100", "messageExpression": "string(self.x)"}],
        },
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
    },
}
_VERSION = {
    "name": "v1",
    "served": True,
    "storage": True,
    "schema": {"openAPIV3Schema": _XS},
    "subresources": {
        "status": {},
        "scale": {"specReplicasPath": ".spec.x", "statusReplicasPath": ".status.replicas"},
    },
    "additionalPrinterColumns": [{"name": "X", "type": "integer", "jsonPath": ".spec.x"}],
    "selectableFields": [{"jsonPath": ".spec.x"}],
}
_CRD = {
    "metadata": {"name": "xs.a.example"},
    "spec": {
        "group": "a.example",
        "names": {"plural": "xs", "kind": "X", "singular": "x", "listKind": "XList"},
        "scope": "Namespaced",
        "versions": [_VERSION],
    },
}
_CUSTOM = "/apis/a.example/v1/namespaces/default/xs"
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_CLAIM_SPEC = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "x", "count": 1}}]}}
_DEVICES = [{"name": "d", "attributes": {"a": {"int": 1}}, "capacity": {"c": {"value": "1Gi"}}}]
_INGRESS_PATH = {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "x", "port": {"number": 80}}}}
_PEERS = [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}, {"podSelector": {}}]
_JOB_SPEC = {
    "completions": 3,
    "parallelism": 2,
    "completionMode": "Indexed",
    "backoffLimitPerIndex": 1,
    "maxFailedIndexes": 1,
    "activeDeadlineSeconds": 99,
    "ttlSecondsAfterFinished": 9,
    "podFailurePolicy": {"rules": [{"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [42]}}]},
    "successPolicy": {"rules": [{"succeededIndexes": "0-1"}]},
    "template": {**SELECTING["template"], "spec": {**POD_SPEC, "restartPolicy": "Never"}},
}
_SCALED = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}

CUSTOM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {**_XS["properties"], "metadata": {"$ref": "x/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}},  # type: ignore[dict-item]
}
FURTHER: dict[str, dict[str, Any]] = {
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": _CRD,
    _CUSTOM: {"metadata": META, "spec": {"x": 3, "xs": [{"k": "a"}], "any": {"b": 1}, "p": "5%"}},
    f"{_ADMISSION}/validatingwebhookconfigurations": {"metadata": META, "webhooks": [_HOOK]},
    f"{_ADMISSION}/mutatingwebhookconfigurations": {"metadata": META, "webhooks": [_HOOK]},
    f"{_ADMISSION}/validatingadmissionpolicies": {
        "metadata": META,
        "spec": {
            **_POLICY,
            "validations": [{"expression": "variables.x != 'q'", "messageExpression": "'no ' + variables.x"}],
            "auditAnnotations": [{"key": "k", "valueExpression": "string(variables.x)"}],
            "failurePolicy": "Ignore",
        },
    },
    f"{_ADMISSION}/validatingadmissionpolicybindings": {
        "metadata": META,
        "spec": {**_BINDING, "validationActions": ["Deny"]},
    },
    f"{_ADMISSION}/mutatingadmissionpolicies": {
        "metadata": META,
        "spec": {
            **_POLICY,
            "mutations": [
                {
                    "patchType": "ApplyConfiguration",
                    "applyConfiguration": {"expression": "Object{metadata: Object.metadata{labels: {'m': 'n'}}}"},
                },
                {
                    "patchType": "JSONPatch",
                    "jsonPatch": {"expression": "[JSONPatch{op: 'add', path: '/data', value: {'a': 'b'}}]"},
                },
            ],
            "reinvocationPolicy": "IfNeeded",
            "failurePolicy": "Ignore",
        },
    },
    f"{_ADMISSION}/mutatingadmissionpolicybindings": {"metadata": META, "spec": _BINDING},
    "/api/v1/namespaces/default/resourcequotas": {
        "metadata": META,
        "spec": {"hard": {"pods": "99", "requests.cpu": "99", "count/configmaps": "999"}, "scopes": ["NotTerminating"]},
    },
    "/api/v1/namespaces/default/limitranges": {
        "metadata": META,
        "spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}, "max": {"cpu": "4"}, "min": {"cpu": "1m"}}]},
    },
    "/api/v1/namespaces/default/replicationcontrollers": {
        "metadata": META,
        "spec": {"replicas": 1, "selector": {"a": "b"}, "template": SELECTING["template"]},
    },
    "/api/v1/namespaces/default/persistentvolumeclaims": {
        "metadata": META,
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    },
    "/api/v1/persistentvolumes": {
        "metadata": META,
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/a"}},
    },
    "/api/v1/namespaces/default/podtemplates": {"metadata": META, "template": SELECTING["template"]},
    "/apis/networking.k8s.io/v1/namespaces/default/ingresses": {
        "metadata": META,
        "spec": {"rules": [{"host": "a.example", "http": {"paths": [_INGRESS_PATH]}}], "tls": [{"secretName": "x"}]},
    },
    "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies": {
        "metadata": META,
        "spec": {"podSelector": {}, "ingress": [{"from": _PEERS, "ports": [{"port": 80, "endPort": 90}]}]},
    },
    "/apis/networking.k8s.io/v1/ingressclasses": {"metadata": META, "spec": {"controller": "a.b/c"}},
    "/apis/networking.k8s.io/v1/servicecidrs": {"metadata": META, "spec": {"cidrs": ["10.97.0.0/24"]}},
    "/apis/networking.k8s.io/v1/ipaddresses": {
        "metadata": {"name": "10.97.0.1"},
        "spec": {"parentRef": {"resource": "services", "name": "x", "namespace": "default"}},
    },
    "/apis/rbac.authorization.k8s.io/v1/clusterroles": {
        "metadata": META,
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["x"]}],
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "c"}}]},
    },
    "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings": {
        "metadata": META,
        "subjects": [{"kind": "User", "name": "bob", "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"kind": "ClusterRole", "name": "x", "apiGroup": "rbac.authorization.k8s.io"},
    },
    "/apis/storage.k8s.io/v1/storageclasses": {"metadata": META, "provisioner": "a.b/c", "parameters": {"a": "b"}},
    "/apis/storage.k8s.io/v1/csidrivers": {"metadata": META, "spec": {"podInfoOnMount": True}},
    "/apis/storage.k8s.io/v1/csinodes": {"metadata": META, "spec": {"drivers": [{"name": "d", "nodeID": "n"}]}},
    "/apis/storage.k8s.io/v1/volumeattachments": {
        "metadata": META,
        "spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "x"}},
    },
    "/apis/resource.k8s.io/v1/deviceclasses": {
        "metadata": META,
        "spec": {"selectors": [{"cel": {"expression": "device.driver == 'a.b'"}}]},
    },
    "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims": {"metadata": META, "spec": _CLAIM_SPEC},
    "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates": {
        "metadata": META,
        "spec": {"spec": _CLAIM_SPEC},
    },
    "/apis/resource.k8s.io/v1/resourceslices": {
        "metadata": META,
        "spec": {
            "driver": "a.b",
            "nodeName": "n",
            "pool": {"name": "p", "resourceSliceCount": 1, "generation": 1},
            "devices": _DEVICES,
        },
    },
    "/apis/scheduling.k8s.io/v1/priorityclasses": {"metadata": META, "value": 5},
    "/apis/node.k8s.io/v1/runtimeclasses": {
        "metadata": META,
        "handler": "h",
        "overhead": {"podFixed": {"cpu": "1m"}},
        "scheduling": {"nodeSelector": {"a": "b"}},
    },
    "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas": {
        "metadata": META,
        "spec": {
            "priorityLevelConfiguration": {"name": "catch-all"},
            "matchingPrecedence": 9000,
            "distinguisherMethod": {"type": "ByUser"},
        },
    },
    "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations": {
        "metadata": META,
        "spec": {
            "type": "Limited",
            "limited": {
                "nominalConcurrencyShares": 3,
                "limitResponse": {
                    "type": "Queue",
                    "queuing": {"queues": 4, "handSize": 2, "queueLengthLimit": 5},
                },
            },
        },
    },
    "/apis/apiregistration.k8s.io/v1/apiservices": {
        "metadata": {"name": "v1.b.example"},
        "spec": {
            "group": "b.example",
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 10,
            "service": {"name": "x", "namespace": "default"},
            "insecureSkipTLSVerify": True,
        },
    },
    "/apis/apps/v1/namespaces/default/controllerrevisions": {
        "metadata": META,
        "revision": 1,
        "data": {"spec": {"template": SELECTING["template"]}},
    },
    "/apis/batch/v1/namespaces/default/jobs": {"metadata": META, "spec": _JOB_SPEC},
    "/apis/batch/v1/namespaces/default/cronjobs": {
        "metadata": META,
        "spec": {
            "schedule": "*/5 * * * *",
            "timeZone": "Etc/UTC",
            "concurrencyPolicy": "Forbid",
            "startingDeadlineSeconds": 9,
            "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": _JOB_SPEC},
        },
    },
    "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers": {
        "metadata": META,
        "spec": {
            "scaleTargetRef": _SCALED,
            "minReplicas": 1,
            "maxReplicas": 5,
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
                },
                {
                    "type": "External",
                    "external": {"metric": {"name": "m"}, "target": {"type": "Value", "value": "5"}},
                },
            ],
            "behavior": {"scaleDown": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 9}]}},
        },
    },
    "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers": {
        "metadata": {**META, "name": "w"},
        "spec": {"scaleTargetRef": _SCALED, "maxReplicas": 5, "targetCPUUtilizationPercentage": 50},
    },
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets": {
        "metadata": META,
        "spec": {"minAvailable": "50%", "selector": SELECTING["selector"], "unhealthyPodEvictionPolicy": "AlwaysAllow"},
    },
    "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles": {
        "metadata": META,
        "rules": [{"apiGroups": ["apps"], "resources": ["*/scale"], "verbs": ["*"]}],
    },
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings": {
        "metadata": META,
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
        "roleRef": {"kind": "ClusterRole", "name": "view", "apiGroup": "rbac.authorization.k8s.io"},
    },
    "/apis/storage.k8s.io/v1/volumeattributesclasses": {
        "metadata": META,
        "driverName": "a.b",
        "parameters": {"iops": "1"},
    },
    "/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities": {
        "metadata": META,
        "storageClassName": "x",
        "capacity": "1Gi",
        "maximumVolumeSize": "1Mi",
        "nodeTopology": {"matchLabels": {"a": "b"}},
    },
    "/apis/certificates.k8s.io/v1/certificatesigningrequests": {
        "metadata": META,
        "spec": {
            "request": make_request("alice"),
            "signerName": "a.b/c",
            "usages": ["digital signature", "client auth"],
            "expirationSeconds": 600,
        },
    },
    "/apis/events.k8s.io/v1/namespaces/default/events": {
        "metadata": {"name": "y"},
        "regarding": {"namespace": "default", "kind": "Pod", "name": "x"},
        "eventTime": "2026-11-21T03:48:41.000000Z",
        "action": "a",
        "reason": "r",
        "reportingController": "c",
        "reportingInstance": "i",
        "type": "Normal",
    },
}
SEEDS: dict[str, dict[str, Any]] = {**OBJECTS, **SUBRESOURCES, **FURTHER}
