"""Every kind with the real kubectl: create, get, wide columns, explain, delete; service ranges; Events."""

from __future__ import annotations

import json
import time

import pytest
import yaml

from .apiserver_process import DEADLINE

pytestmark = [pytest.mark.integration, pytest.mark.needs("kubectl")]

# resource, manifest without name, the field that `explain` is asked for, a column of `get -o wide`
KINDS = {
    "ingresses": (
        "{apiVersion: networking.k8s.io/v1, kind: Ingress, spec: {rules: [{host: a.example.com, http: {paths: "
        "[{path: /, pathType: Prefix, backend: {service: {name: 1web, port: {number: 80}}}}]}}]}}",
        "ingress.spec.rules.http.paths.pathType",
        "a.example.com",
    ),
    "ingressclasses": (
        "{apiVersion: networking.k8s.io/v1, kind: IngressClass, spec: {controller: example.com/a}}",
        "ingressclass.spec.controller",
        "example.com/a",
    ),
    "networkpolicies": (
        "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, spec: {podSelector: {matchLabels: {a: b}}}}",
        "networkpolicy.spec.policyTypes",
        "a=b",
    ),
    "servicecidrs": (
        "{apiVersion: networking.k8s.io/v1, kind: ServiceCIDR, spec: {cidrs: [10.222.0.0/24]}}",
        "servicecidr.spec.cidrs",
        "10.222.0.0/24",
    ),
    "podtemplates": (
        "{apiVersion: v1, kind: PodTemplate, template: {spec: {containers: [{name: a, image: nginx}]}}}",
        "podtemplate.template.spec",
        "nginx",
    ),
    "controllerrevisions": (
        "{apiVersion: apps/v1, kind: ControllerRevision, revision: 77, data: {spec: {template: {}}}}",
        "controllerrevision.revision",
        "77",
    ),
    "horizontalpodautoscalers": (
        "{apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler, spec: {maxReplicas: 77, "
        "scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}}",
        "hpa.spec.metrics.containerResource",
        "cpu:",
    ),
    "resourcequotas": (
        "{apiVersion: v1, kind: ResourceQuota, spec: {hard: {count/widgets.example.com: 3, secrets: 70}}}",
        "quota.spec.scopeSelector",
        "",
    ),
    "limitranges": (
        "{apiVersion: v1, kind: LimitRange, spec: {limits: [{type: Pod, max: {cpu: 100}}]}}",
        "limits.spec.limits.maxLimitRequestRatio",
        "Z",
    ),
    "poddisruptionbudgets": (
        "{apiVersion: policy/v1, kind: PodDisruptionBudget, spec: {maxUnavailable: 30%, selector: {}}}",
        "pdb.spec.unhealthyPodEvictionPolicy",
        "30%",
    ),
    "runtimeclasses": (
        "{apiVersion: node.k8s.io/v1, kind: RuntimeClass, handler: runsc}",
        "runtimeclass.handler",
        "runsc",
    ),
    "priorityclasses": (
        "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, value: 1234}",
        "priorityclass.value",
        "1234",
    ),
    "persistentvolumes": (
        "{apiVersion: v1, kind: PersistentVolume, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], "
        "hostPath: {path: /a}}}",
        "pv.spec.capacity",
        "RWO",
    ),
    "persistentvolumeclaims": (
        "{apiVersion: v1, kind: PersistentVolumeClaim, spec: {accessModes: [ReadWriteOnce], resources: "
        "{requests: {storage: 1Gi}}}}",
        "pvc.spec.accessModes",
        "Pending",
    ),
    "storageclasses": (
        "{apiVersion: storage.k8s.io/v1, kind: StorageClass, provisioner: example.com/disk}",
        "sc.provisioner",
        "example.com/disk",
    ),
    "volumeattachments": (
        "{apiVersion: storage.k8s.io/v1, kind: VolumeAttachment, spec: {attacher: a.io, nodeName: n, source: "
        "{persistentVolumeName: v}}}",
        "volumeattachment.spec.attacher",
        "a.io",
    ),
    "volumeattributesclasses": (
        "{apiVersion: storage.k8s.io/v1, kind: VolumeAttributesClass, driverName: a.io, parameters: {iops: '1'}}",
        "vac.driverName",
        "a.io",
    ),
    "csidrivers": ("{apiVersion: storage.k8s.io/v1, kind: CSIDriver}", "csidriver.spec.attachRequired", "Persistent"),
    "csinodes": (
        "{apiVersion: storage.k8s.io/v1, kind: CSINode, spec: {drivers: [{name: a.io, nodeID: n}]}}",
        "csinode.spec.drivers",
        "1",
    ),
    "csistoragecapacities": (
        "{apiVersion: storage.k8s.io/v1, kind: CSIStorageCapacity, storageClassName: gold, capacity: 1Gi}",
        "csistoragecapacity.capacity",
        "1Gi",
    ),
    "deviceclasses": ("{apiVersion: resource.k8s.io/v1, kind: DeviceClass}", "deviceclass.spec.selectors", "kind"),
    "resourceclaims": (
        "{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, spec: {devices: {requests: [{name: a, exactly: "
        "{deviceClassName: gpu}}]}}}",
        "resourceclaim.spec.devices",
        "pending",
    ),
    "resourceclaimtemplates": (
        "{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, spec: {spec: {devices: {requests: [{name: a, "
        "exactly: {deviceClassName: gpu}}]}}}}",
        "resourceclaimtemplate.spec.spec",
        "kind",
    ),
    "resourceslices": (
        "{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, spec: {driver: a.io, nodeName: n, pool: {name: p, "
        "resourceSliceCount: 1}}}",
        "resourceslice.spec.pool",
        "a.io",
    ),
    "flowschemas": (
        "{apiVersion: flowcontrol.apiserver.k8s.io/v1, kind: FlowSchema, spec: {priorityLevelConfiguration: "
        "{name: catch-all}}}",
        "flowschema.spec.matchingPrecedence",
        "catch-all",
    ),
    "prioritylevelconfigurations": (
        "{apiVersion: flowcontrol.apiserver.k8s.io/v1, kind: PriorityLevelConfiguration, spec: {type: Limited, "
        "limited: {limitResponse: {type: Reject}}}}",
        "prioritylevelconfiguration.spec.limited",
        "Limited",
    ),
}


def run(server, *arguments: str, stdin: str = "") -> str:
    if stdin.startswith("{"):  # kubectl takes this for JSON
        stdin = json.dumps(yaml.safe_load(stdin))
    result = server.kubectl(*arguments, stdin=stdin)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("resource", KINDS)
def test_a_kind(server, resource):
    manifest, path, cell = KINDS[resource]
    named = manifest[:-1] + ", metadata: {name: kind}}"
    assert run(server, "create", "-f", "-", stdin=named).endswith("/kind created\n")
    header, *rows = run(server, "get", resource, "-o", "wide").splitlines()
    assert header.startswith("NAME")
    assert any(row.startswith("kind") and cell in row for row in rows), rows
    assert "FIELD:" in run(server, "explain", path)
    labeled = run(server, "label", resource, "kind", "a=b")
    assert labeled.endswith("labeled\n")
    assert "deleted" in run(server, "delete", resource, "kind", "--wait=false")


def test_api_resources(server):
    lines = [" ".join(line.split()) for line in run(server, "api-resources", "--no-headers").splitlines()]
    assert "ipaddresses ip networking.k8s.io/v1 false IPAddress" in lines
    assert "events ev events.k8s.io/v1 true Event" in lines
    assert "persistentvolumeclaims pvc v1 true PersistentVolumeClaim" in lines
    raw = json.loads(run(server, "get", "--raw", "/apis/networking.k8s.io/v1"))
    assert "ingresses/status" in [entry["name"] for entry in raw["resources"]]


def test_a_quota_is_counted_and_obeyed(server):
    run(server, "create", "namespace", "small")
    run(server, "create", "quota", "q", "--namespace=small", "--hard=secrets=1,services.nodeports=0")
    run(server, "wait", "--namespace=small", "quota/q", "--for=jsonpath={.status.used.secrets}=0", "--timeout=60s")
    run(server, "create", "secret", "generic", "a", "--namespace=small")
    refused = server.kubectl("create", "secret", "generic", "b", "--namespace=small")
    assert "exceeded quota: q, requested: secrets=1, used: secrets=1, limited: secrets=1" in refused.stderr
    assert "secrets: 1/1, services.nodeports: 0/0" in run(server, "get", "quota", "--namespace=small")
    described = [" ".join(line.split()) for line in run(server, "describe", "quota", "-n", "small").splitlines()]
    assert "secrets 1 1" in described
    refused = server.kubectl("create", "service", "nodeport", "s", "--tcp=80", "--namespace=small")
    assert "exceeded quota: q, requested: services.nodeports=1" in refused.stderr
    run(server, "delete", "secret", "a", "--namespace=small")
    run(server, "wait", "--namespace=small", "quota/q", "--for=jsonpath={.status.used.secrets}=0", "--timeout=60s")


def test_a_service_in_a_range_that_is_added_and_drained(server):
    spec = (
        "{apiVersion: networking.k8s.io/v1, kind: ServiceCIDR, metadata: {name: more}, spec: {cidrs: [10.223.0.0/28]}}"
    )
    run(server, "create", "-f", "-", stdin=spec)
    run(server, "wait", "--for=condition=Ready", "servicecidr/more", "--timeout=60s")
    service = (
        "{apiVersion: v1, kind: Service, metadata: {name: 1ranged}, spec: {clusterIP: 10.223.0.3, ports: [{port: 80}]}}"
    )
    run(server, "create", "-f", "-", stdin=service)
    assert "services/default/1ranged" in run(server, "get", "ip", "10.223.0.3")
    run(server, "delete", "servicecidr", "more", "--wait=false")
    run(server, "wait", "--for=condition=Ready=false", "servicecidr/more", "--timeout=60s")
    assert "10.223.0.3" in run(server, "get", "service", "1ranged")
    run(server, "delete", "service", "1ranged")
    deadline = time.monotonic() + DEADLINE
    listed = "/apis/networking.k8s.io/v1/servicecidrs?fieldSelector=metadata.name%3Dmore"
    while json.loads(server.read(listed, user="admin"))["items"]:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert server.kubectl("get", "ip", "10.223.0.3").returncode != 0


def test_events(server):
    event = (
        "{apiVersion: v1, kind: Event, metadata: {name: a.1}, "
        "involvedObject: {kind: Pod, namespace: default, name: web}, "
        "type: Normal, reason: Seen, message: hello}"
    )
    run(server, "create", "-f", "-", stdin=event)
    assert run(server, "get", "events.events.k8s.io", "a.1", "-o", "jsonpath={.note} {.regarding.name}") == "hello web"
    assert "hello" in run(server, "events")
