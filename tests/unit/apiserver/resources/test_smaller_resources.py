"""Validation of the smaller resources and of metadata."""

import base64
import copy
from ipaddress import ip_address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.apiserver.registry.metadata import count_generation
from bridgehead.apiserver.resource import errors_of
from bridgehead.apiserver.resources.shared.address_rules import (
    check_canonical_cidr,
    check_cidr,
    check_interface_address,
    check_ip,
    check_strict_cidr,
    family_of,
    is_cidr,
    parse_ip,
)
from bridgehead.apiserver.resources.shared.metadata_validation import validate_metadata, validate_metadata_update
from bridgehead.objects.names import check_qualified_name
from tests.unit.apiserver.resources import refusals
from tests.unit.apiserver.resources.steps import Steps, from_yaml, table, texts

TABLE = table()
NAMED = {"name": "web", "namespace": "default"}


def steps(resource):
    return Steps(TABLE[resource])


def with_name(obj):
    obj = from_yaml(obj) if isinstance(obj, str) else obj
    return {**obj, "metadata": {**NAMED, **obj.get("metadata", {})}}


IP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
REFUSALS: dict[str, Any] = {
    "endpoints": [
        ("{subsets: [{addresses: [{ip: 10.0.0.1}], ports: [{port: 80}]}]}", []),
        ("{subsets: [{addresses: [{ip: 10.0.0.1}]}]}", []),
        ("{subsets: [{}]}", ["subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"]),
        ("{subsets: [{addresses: [{ip: a}]}]}", [f'subsets[0].addresses[0].ip: Invalid value: "a": {IP}']),
        ("{subsets: [{notReadyAddresses: [{ip: 127.0.0.1}]}]}", [
            'subsets[0].notReadyAddresses[0].ip: Invalid value: "127.0.0.1": may not be in the loopback range '
            "(127.0.0.0/8, ::1/128)"]),
        ("{subsets: [{addresses: [{ip: 169.254.1.1}]}]}", [
            'subsets[0].addresses[0].ip: Invalid value: "169.254.1.1": may not be in the link-local range '
            "(169.254.0.0/16, fe80::/10)"]),
        ("{subsets: [{addresses: [{ip: 'ff02::1'}]}]}", [
            'subsets[0].addresses[0].ip: Invalid value: "ff02::1": may not be in the link-local multicast range '
            "(224.0.0.0/24, ff02::/10)"]),
        ("{subsets: [{addresses: [{ip: '::ffff:10.0.0.1'}]}]}", [
            'subsets[0].addresses[0].ip: Invalid value: "::ffff:10.0.0.1": must not be an IPv4-mapped IPv6 address']),
        ("{subsets: [{addresses: [{ip: 010.0.0.1}]}]}", [
            'subsets[0].addresses[0].ip: Invalid value: "010.0.0.1": must not have leading 0s']),
        ("{subsets: [{addresses: [{ip: 10.0.0.1, nodeName: ''}]}]}", [
            f'subsets[0].addresses[0].nodeName: Invalid value: "": {refusals.SUBDOMAIN}']),
        ("{subsets: [{addresses: [{ip: 10.0.0.1}], ports: [{port: 80}, {port: 81, name: b}]}]}", [
            "subsets[0].ports[0].name: Required value"]),
        ("{subsets: [{addresses: [{ip: 10.0.0.1}], ports: [{port: 0, protocol: X}]}]}", [
            "subsets[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
            'subsets[0].ports[0].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"']),
    ],
    "endpointslices.discovery.k8s.io": [
        ("{addressType: IPv4, endpoints: [{addresses: [10.0.0.1]}], ports: [{port: 80}]}", []),
        ("{addressType: FQDN, endpoints: [{addresses: [a.example.com]}]}", []),
        ("{endpoints: []}", ["addressType: Required value"]),
        ("{addressType: IPX}", ['addressType: Unsupported value: "IPX": supported values: "FQDN", "IPv4", "IPv6"']),
        ("{addressType: IPv4, endpoints: [{}]}", [
            "endpoints[0].addresses: Required value: must contain at least 1 address"]),
        ("{addressType: IPv4, endpoints: [{addresses: ['fd00::1']}]}", [
            'endpoints[0].addresses[0]: Invalid value: "fd00::1": must be an IPv4 address']),
        ("{addressType: IPv6, endpoints: [{addresses: ['::1']}]}", [
            'endpoints[0].addresses[0]: Invalid value: "::1": may not be in the loopback range (127.0.0.0/8, '
            "::1/128)"]),
        ("{addressType: IPv4, endpoints: [{addresses: [10.0.0.1, 10.0.0.1]}]}", [
            'endpoints[0].addresses[1]: Duplicate value: "10.0.0.1"']),
        ("{addressType: IPv4, endpoints: [{addresses: [10.0.0.1], hostname: '', nodeName: ''}]}", [
            f'endpoints[0].nodeName: Invalid value: "": {refusals.SUBDOMAIN}',
            f'endpoints[0].hostname: Invalid value: "": {refusals.LABEL}']),
        ("{addressType: IPv4, ports: [{port: 80, appProtocol: ''}]}", [
            f'ports[0].appProtocol: Invalid value: "": {reason}' for reason in check_qualified_name("")]),
        ("{addressType: IPv4, endpoints: [{addresses: [10.0.0.1], hints: {forZones: [{name: a}, {name: a}]}}]}", [
            'endpoints[0].hints.forZones[1].name: Duplicate value: "a"']),
        ("{addressType: IPv4, ports: [{protocol: '', appProtocol: ''}], endpoints: [{addresses: [10.0.0.1], "
         "hostname: '', nodeName: ''}]}", [
            f'endpoints[0].nodeName: Invalid value: "": {refusals.SUBDOMAIN}',
            f'endpoints[0].hostname: Invalid value: "": {refusals.LABEL}',
            'ports[0].protocol: Unsupported value: "": supported values: "SCTP", "TCP", "UDP"',
            'ports[0].appProtocol: Invalid value: "": name part must be non-empty',
            f'ports[0].appProtocol: Invalid value: "": {refusals.QUALIFIED}']),
        ("{addressType: IPv4, ports: [{port: 80}, {port: 81}]}", ['ports[1].name: Duplicate value: ""']),
        ("{addressType: FQDN, endpoints: [{addresses: [localhost]}]}", [
            'endpoints[0].addresses[0]: Invalid value: "localhost": should be a domain with at least two segments '
            "separated by dots"]),
    ],
    "secrets": [
        ("{stringData: {a: b}}", []),
        ("{data: {'a b': eA==}}", [
            'data[a b]: Invalid value: "a b": a valid config key must consist of alphanumeric characters, '
            "'-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is "
            "'[-._a-zA-Z0-9]+')"]),
        ("{data: {..: eA==}}", ["data[..]: Invalid value: \"..\": must not be '..'"]),
        ("{type: kubernetes.io/tls, data: {tls.crt: eA==}}", ["data[tls.key]: Required value"]),
        ("{type: kubernetes.io/basic-auth}", ["data[username]: Required value", "data[password]: Required value"]),
        ("{type: kubernetes.io/basic-auth, stringData: {username: a}}", []),
        ("{type: kubernetes.io/ssh-auth}", ["data[ssh-privatekey]: Required value"]),
        ("{type: kubernetes.io/dockerconfigjson, stringData: {.dockerconfigjson: '[]'}}", [
            'data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": json: cannot unmarshal array into '
            "Go value of type map[string]interface {}"]),
        ("{type: kubernetes.io/dockerconfigjson, stringData: {.dockerconfigjson: 'a'}}", [
            'data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": invalid character \'a\' looking for '
            "beginning of value"]),
        ("{type: kubernetes.io/ssh-auth, data: {ssh-privatekey: ''}}", ["data[ssh-privatekey]: Required value"]),
        ("{type: kubernetes.io/tls, data: {tls.crt: '', tls.key: ''}}", []),
        ("{type: kubernetes.io/dockerconfigjson, stringData: {.dockerconfigjson: '{}'}}", []),
        ("{type: kubernetes.io/service-account-token}", [
            "metadata.annotations[kubernetes.io/service-account.name]: Required value"]),
    ],
    "configmaps": [
        ("{data: {a: b}, binaryData: {c: eA==}}", []),
        ("{data: {a: b}, binaryData: {a: eA==}}", [
            'data[a]: Invalid value: "a": duplicate of key present in binaryData']),
    ],
    "nodes": [
        ("{status: {nodeInfo: {swap: {capacity: 0}}, declaredFeatures: [B/c, A, A, a]}}", [
            'status.declaredFeatures[1]: Invalid value: "A": list must be sorted alphabetically',
            'status.declaredFeatures[2]: Duplicate value: "A"',
            'status.declaredFeatures[3]: Invalid value: "a": invalid feature name "a": must start with an UpperCamel'
            "Case segment, with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and "
            "contain only alphanumeric characters and slashes",
            'metadata.nodeSwapStatus.capacity: Invalid value: 0: must be greater than zero']),
        ("{spec: {podCIDR: 10.244.1.0/24}}", []),
        ("{spec: {podCIDRs: [x]}}", [
            'spec.podCIDRs[0]: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)']),
        ("{spec: {podCIDR: 10.244.1.1/24}}", [
            'spec.podCIDRs[0]: Invalid value: "10.244.1.1/24": must not have bits set beyond the prefix length']),
        ("{spec: {podCIDRs: [10.0.0.0/8, 10.1.0.0/16]}}", [
            'spec.podCIDRs: Invalid value: ["10.0.0.0/8","10.1.0.0/16"]: may specify no more than one CIDR for each IP '
            "family"]),
        ("{spec: {taints: [{key: a, effect: NoSchedule}, {key: a, effect: NoSchedule}]}}", [
            'metadata.taints[1]: Duplicate value: {"Key":"a","Value":"","Effect":"NoSchedule","TimeAdded":null}: '
            "taints must be unique by key and effect pair"]),
        ("{spec: {podCIDRs: [10.0.0.0/24, 10.0.0.0/24, x]}}", [
            f'spec.podCIDRs[2]: Invalid value: "x": {refusals.CIDR}',
            'spec.podCIDRs: Internal error: invalid PodCIDRs. failed to check with dual stack with error:failed to '
            'parse cidr value:"x" with error:invalid CIDR address: x',
            'spec.podCIDRs: Invalid value: ["10.0.0.0/24","10.0.0.0/24","x"]: may specify no more than one CIDR for '
            "each IP family",
            'spec.podCIDRs[1]: Duplicate value: "10.0.0.0/24"']),
        ("{spec: {taints: [{key: a, effect: Never}]}}", [
            'metadata.taints[0].effect: Unsupported value: "Never": supported values: "NoSchedule", '
            '"PreferNoSchedule", "NoExecute"']),
        ("{status: {capacity: {cpu: '-1'}, allocatable: {}}}", [
            'status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0']),
    ],
    "namespaces": [
        ("{}", []),
        ("{spec: {finalizers: ['a b']}}", [
            f'spec.finalizers: Invalid value: "a b": {refusals.QUALIFIED}',
            'spec.finalizers: Invalid value: "a b": name is neither a standard finalizer name nor is it fully '
            "qualified"]),
        ("{spec: {finalizers: [mine]}}", [
            'spec.finalizers: Invalid value: "mine": name is neither a standard finalizer name nor is it fully '
            "qualified"]),
    ],
    "events": [
        ("{involvedObject: {namespace: default, name: a}}", []),
        ("{involvedObject: {kind: Node, name: a}}", []),
        ("{involvedObject: {namespace: other, name: a}}", [
            'involvedObject.namespace: Invalid value: "other": does not match event.namespace']),
        ("{involvedObject: {namespace: default}, eventTime: '2026-01-01T00:00:00.000000Z', action: A, reason: B}", [
            "reportingController: Required value",
            'reportingController: Invalid value: "": name part must be non-empty',
            f'reportingController: Invalid value: "": {refusals.QUALIFIED}',
            "reportingInstance: Required value"]),
        ("{involvedObject: {namespace: other}, eventTime: '2026-01-01T00:00:00.000000Z', action: A, reason: B, "
         "reportingComponent: a.io/b, reportingInstance: c}", []),
        ("{metadata: {name: A_b}}", []),
    ],
    "leases.coordination.k8s.io": [
        ("{spec: {holderIdentity: a, leaseDurationSeconds: 40}}", []),
        ("{spec: {leaseDurationSeconds: 0, leaseTransitions: -1}}", [
            "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
            "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"]),
    ],
    "serviceaccounts": [("{}", [])],
    **refusals.ALL,
}  # fmt: skip


@pytest.mark.parametrize(
    ("resource", "obj", "expected"),
    [(resource, obj, expected) for resource, cases in REFUSALS.items() for obj, expected in cases],
)
def test_invalid_objects_are_refused(resource, obj, expected):
    assert steps(resource).refusal(with_name(obj)) == expected


def test_every_resource_has_cases():
    elsewhere = {"services", "pods", "deployments.apps", "replicasets.apps", "daemonsets.apps"}
    assert set(REFUSALS) | elsewhere == set(TABLE)


def test_size_limits_are_enforced():
    big = base64.b64encode(bytes(1024 * 1024 + 1)).decode()
    assert steps("secrets").refusal(with_name({"data": {"a": big}})) == [
        "data: Too long: may not be more than 1048576 bytes"
    ]
    assert steps("configmaps").refusal(with_name({"data": {"a": "x" * (1024 * 1024 + 1)}})) == [
        "[]: Too long: may not be more than 1048576 bytes"
    ]
    many = [{"addresses": [f"10.{i // 256}.{i % 256}.1"]} for i in range(1001)]
    assert steps("endpointslices.discovery.k8s.io").refusal(with_name({"addressType": "IPv4", "endpoints": many})) == [
        "endpoints: Too many: 1001: must have at most 1000 items"
    ]


UPDATES = [
    ("secrets", "{data: {a: eA==}}", "{data: {a: eA==}, type: other}", [
        'type: Invalid value: "other": field is immutable']),
    ("secrets", "{immutable: true, data: {a: eA==}}", "{immutable: true, data: {a: eQ==}}", [
        "data: Forbidden: field is immutable when `immutable` is set"]),
    ("configmaps", "{immutable: true, data: {a: x}}", "{data: {a: x}}", [
        "immutable: Forbidden: field is immutable when `immutable` is set"]),
    ("configmaps", "{data: {a: x}}", "{immutable: true, data: {a: y}}", []),
    ("endpointslices.discovery.k8s.io", "{addressType: IPv4}", "{addressType: IPv6}", [
        'addressType: Invalid value: "IPv6": field is immutable']),
    ("nodes", "{spec: {podCIDR: 10.244.1.0/24}}", "{spec: {podCIDR: 10.244.2.0/24}}", [
        'spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid']),
    ("nodes", "{}", "{spec: {podCIDR: 10.244.2.0/24}}", []),
    ("nodes", "{}", "{spec: {podCIDR: 10.244.2.1/24}}", [
        'spec.podCIDRs[0]: Invalid value: "10.244.2.1/24": must not have bits set beyond the prefix length']),
    ("nodes", "{spec: {providerID: a}}", "{spec: {providerID: b}}", [
        'spec.providerID: Forbidden: node updates may not change providerID except from "" to valid']),
    *refusals.UPDATES,
]  # fmt: skip


@pytest.mark.parametrize(("resource", "before", "after", "expected"), UPDATES)
def test_immutable_fields_cannot_be_updated(resource, before, after, expected):
    one = steps(resource)
    assert one.update_refusal(one.create(with_name(before)), with_name(after)) == expected


@pytest.mark.parametrize(
    ("status", "is_fixed"),
    [
        ("{}", False),
        ("{startTime: '2027-01-15T07:55:00Z'}", True),  # its controller has not seen the suspension
        ("{active: 1, conditions: [{type: Suspended, status: 'True'}]}", True),
        ("{startTime: '2027-01-15T07:55:00Z', conditions: [{type: Suspended, status: 'True'}]}", False),
    ],
)
def test_resources_of_a_suspended_job_may_change_while_it_has_no_pods(status, is_fixed):
    template = "{spec: {restartPolicy: Never, containers: [{name: a, image: b, resources: {requests: {cpu: '%s'}}}]}}"
    one = steps("jobs.batch")
    stored = one.create(with_name(f"{{spec: {{suspend: true, template: {template % 1}}}}}"))
    changed = copy.deepcopy(stored)
    changed["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    changed["spec"]["suspend"] = False
    refusal = one.update_refusal({**stored, "status": from_yaml(status)}, changed)
    assert [text.partition(":")[0] for text in refusal] == ["spec.template"] * is_fixed


def test_a_stored_range_of_a_node_stays_valid():
    one = steps("nodes")
    stored = one.create(with_name("{spec: {podCIDR: 10.244.2.0/24}}"))
    stored["spec"] = {"podCIDR": "10.244.2.1/24", "podCIDRs": ["10.244.2.1/24"]}
    assert one.update_refusal(stored, {**stored, "status": {"phase": "Running"}}) == []
    assert one.resource.strategy.warnings(stored) == [
        'spec.podCIDRs[0]: CIDR value "10.244.2.1/24" is ambiguous in this context (should be "10.244.2.0/24" or '
        '"10.244.2.1/32"?)'
    ]


def test_string_data_is_merged_into_data():
    made = steps("secrets").create(with_name("{data: {a: eA==, b: eA==}, stringData: {a: new}}"))
    assert (made["data"], made["type"]) == ({"a": "bmV3", "b": "eA=="}, "Opaque")
    assert "stringData" not in made


@pytest.mark.parametrize(
    ("resource", "spec", "zeros"),
    [
        ("resourceclaimtemplates.resource.k8s.io", {"spec": {"devices": {}}}, {"metadata": {}}),
        (
            "resourceslices.resource.k8s.io",
            {"driver": "a.io", "nodeName": "n", "pool": {"name": "p", "resourceSliceCount": 1}},
            {"pool": {"name": "p", "generation": 0, "resourceSliceCount": 1}},
        ),
        ("csidrivers.storage.k8s.io", {"tokenRequests": [{}]}, {"tokenRequests": [{"audience": ""}]}),
    ],
)
def test_zeros_that_go_always_writes_are_no_change(resource, spec, zeros):
    its = steps(resource)
    made = its.create(with_name({"spec": spec}))
    assert its.update(made, {**made, "spec": made["spec"] | zeros}) == made


def test_a_namespace_has_a_finalizer_until_it_is_empty():
    namespaces = steps("namespaces")
    made = namespaces.create({"metadata": {"name": "a"}})
    assert made["spec"] == {"finalizers": ["kubernetes"]}
    assert made["status"] == {"phase": "Active"}
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": "a"}
    assert namespaces.update(made, {"metadata": {"name": "a"}})["spec"] == made["spec"]
    assert namespaces.update(made, {**made, "spec": {}}, "finalize")["spec"] == {}


EMPTY_STATUS = {
    "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
    "nodeInfo": dict.fromkeys(
        (
            *("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion"),
            *("kubeletVersion", "kubeProxyVersion", "operatingSystem", "architecture"),
        ),
        "",
    ),
}


def test_a_node_update_keeps_its_status():
    nodes = steps("nodes")
    configured = {"spec": {"configSource": {"configMap": {}}}, "status": {"config": {"error": "a"}}}
    made = nodes.create({"metadata": {"name": "node1"}, **configured})
    assert "configSource" not in made["spec"]
    assert "config" not in made["status"]
    assert "configSource" not in nodes.update(made, {**made, **configured})["spec"]
    assert "config" not in nodes.update(made, {**made, **configured}, "status")["status"]
    assert "configSource" in nodes.update({**made, **configured}, {**made, **configured})["spec"]
    made = nodes.create({"metadata": {"name": "node1"}, "status": {"capacity": {"cpu": "2"}}})
    assert made["status"] == EMPTY_STATUS | {"capacity": {"cpu": "2"}, "allocatable": {"cpu": "2"}}
    assert (
        nodes.update(made, {"metadata": {"name": "node1"}, "spec": {"unschedulable": True}})["status"] == made["status"]
    )
    reported = nodes.update(made, {**made, "spec": {"unschedulable": True}, "status": {}}, "status")
    assert (reported["spec"], reported["status"]) == ({}, EMPTY_STATUS)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"podCIDR": "10.0.0.0/24"}, ("10.0.0.0/24", ["10.0.0.0/24"])),
        ({"podCIDRs": ["10.0.0.0/24", "fd00::/64"]}, ("10.0.0.0/24", ["10.0.0.0/24", "fd00::/64"])),
        ({"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.0.0.0/24", "fd00::/64"]}, ("10.1.0.0/24", ["10.1.0.0/24"])),
    ],
)
def test_the_older_name_of_a_node_s_ranges_replaces_them(spec, expected):
    made = steps("nodes").create({"metadata": {"name": "node1"}, "spec": spec})["spec"]
    assert (made["podCIDR"], made["podCIDRs"]) == expected


def test_a_service_account_keeps_the_names_of_its_secrets():
    accounts = steps("serviceaccounts")
    secrets = [{"name": "a", "kind": "Secret", "namespace": "other"}, {"kind": "Secret"}]
    made = accounts.create({"metadata": dict(NAMED), "secrets": secrets})
    assert made["secrets"] == [{"name": "a"}, {}]
    assert accounts.update(made, {**made, "secrets": secrets})["secrets"] == [{"name": "a"}, {}]


@pytest.mark.parametrize(
    ("kind", "given", "made"),
    [
        ("iscsi", {"iqn": "a"}, {"iqn": "a", "iscsiInterface": "default"}),
        ("rbd", {"pool": ""}, {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"}),
        ("scaleIO", {"fsType": "ext4"}, {"fsType": "ext4", "storageMode": "ThinProvisioned"}),
        (
            "azureDisk",
            {"kind": ""},
            {"kind": "", "cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False},
        ),
        ("nfs", {"server": "a"}, {"server": "a"}),
    ],
)
def test_defaults_of_volume_sources(kind, given, made):
    volume = {"spec": {kind: dict(given)}}
    TABLE["persistentvolumes"].strategy.default(volume)
    assert volume["spec"][kind] == made


# --- Metadata --------------------------------------------------------------------------------------------

NAME_RULES = [
    ("pods", "{name: web, namespace: default}", []),
    ("pods", "{namespace: default}", ["metadata.name: Required value: name or generateName is required"]),
    ("pods", "{name: web}", ["metadata.namespace: Required value"]),
    ("nodes", "{name: node1}", []),
    ("nodes", "{name: node1, namespace: default}", ["metadata.namespace: Forbidden: not allowed on this type"]),
    ("pods", "{name: web, namespace: default, generateName: web-}", []),
    ("pods", "{name: web, namespace: default, labels: {a/b/c: x}}", ["metadata.labels: Invalid value: "]),
    ("pods", "{name: web, namespace: default, labels: {a: 'b c'}}", ['metadata.labels: Invalid value: "b c": a valid']),
    ("pods", "{name: web, namespace: default, annotations: {'a b': ''}}", ["metadata.annotations: Invalid value: "]),
    ("pods", "{name: web, namespace: default, finalizers: [a/b, orphan]}", []),
    ("pods", "{name: web, namespace: default, finalizers: [mine]}", [
        'metadata.finalizers[0]: Invalid value: "mine": name is neither a standard finalizer name']),
    ("pods", "{name: web, namespace: default, finalizers: [orphan, foregroundDeletion]}", [
        'metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and foregroundDeletion '
        "cannot be both set"]),
    ("pods", "{name: web, namespace: default, ownerReferences: [{apiVersion: v1, kind: Pod, name: a, uid: ''}]}", [
        'metadata.ownerReferences.uid: Invalid value: "": must not be empty']),
    ("pods", "{name: web, namespace: default, ownerReferences: [{apiVersion: '', kind: Pod, name: a, uid: b}]}", [
        'metadata.ownerReferences.apiVersion: Invalid value: "": version must not be empty']),
    ("services", "{name: 1web, namespace: default}", []),
    ("services", "{name: Web, namespace: default}", ['metadata.name: Invalid value: "Web": a lowercase RFC 1123']),
    ("namespaces", "{name: a.b}", ['metadata.name: Invalid value: "a.b": must not contain dots']),
    ("namespaces", "{name: a_b}", ['metadata.name: Invalid value: "a_b": a lowercase RFC 1123 label must']),
]  # fmt: skip


@pytest.mark.parametrize(("resource", "metadata", "expected"), NAME_RULES)
def test_invalid_metadata_is_refused(resource, metadata, expected):
    refused = texts(errors_of(validate_metadata, {"metadata": from_yaml(metadata)}, TABLE[resource]))
    assert len(refused) == len(expected)
    assert all(text.startswith(beginning) for text, beginning in zip(refused, expected, strict=True))


def test_an_object_has_at_most_one_managing_owner():
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "a", "uid": "1", "controller": True}
    refused = errors_of(
        validate_metadata, {"metadata": {**NAMED, "ownerReferences": [owner, {**owner, "name": "b"}]}}, TABLE["pods"]
    )
    assert refused[0].message.endswith(
        'Only one reference can have Controller set to true. Found "true" in references for '
        "ReplicaSet/a and ReplicaSet/b"
    )


def test_annotations_have_a_size_limit_in_bytes():
    annotations = {"a": "ä" * (128 * 1024)}
    refused = errors_of(validate_metadata, {"metadata": {**NAMED, "annotations": annotations}}, TABLE["pods"])
    assert texts(refused) == ["metadata.annotations: Too long: may not be more than 262144 bytes"]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"uid": "1"}, {"uid": "1"}, []),
        ({"uid": "1"}, {"uid": "2"}, ['metadata.uid: Invalid value: "2": field is immutable']),
        ({"name": "a"}, {"name": "b"}, ['metadata.name: Invalid value: "b": field is immutable']),
        ({"generation": 2}, {"generation": 1}, ["metadata.generation: Invalid value: 1: must not be decremented"]),
        (
            {"deletionTimestamp": "t", "finalizers": ["a/b"]},
            {"deletionTimestamp": "t", "finalizers": ["a/b", "c/d"]},
            [
                "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found "
                'new finalizers []string{"c/d"}'
            ],
        ),
        ({"deletionTimestamp": "t", "finalizers": ["a/b"]}, {"deletionTimestamp": "t"}, []),
    ],
)
def test_invalid_metadata_updates_are_refused(before, after, expected):
    assert texts(errors_of(validate_metadata_update, {"metadata": after}, {"metadata": before})) == expected


# --- Addresses -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ("10.0.0.1", "IPv4"),
        ("fd00::1", "IPv6"),
        ("010.0.0.1", "unknown"),
        ("10.0.0", "unknown"),
        ("fe80::1%eth0", "unknown"),
        ("", "unknown"),
        ("None", "unknown"),
    ],
)
def test_address_families_are_recognized(text, family):
    assert family_of(text) == family
    assert (check_ip(text) == []) == (family != "unknown")


@given(
    st.from_regex(r"[0-9]{0,3}(\.[0-9]{0,3}){3}\n?", fullmatch=True) | st.ip_addresses().map(str) | st.text(max_size=9)
)
def test_addresses_are_parsed_as_the_standard_library_does(text):
    try:
        expected = None if "%" in text else ip_address(text)
    except ValueError:
        expected = None
    assert parse_ip(text) == expected


@pytest.mark.parametrize(
    ("text", "fine"),
    [
        ("10.0.0.0/8", True),
        ("10.0.0.1/8", True),
        ("fd00::/64", True),
        ("10.0.0.1", False),
        ("10.0.0.0/33", False),
        ("10.0.0.0/255.0.0.0", False),
        ("10.0.0.0/", False),
        ("/8", False),
        ("", False),
        ("010.0.0.0/8", False),
    ],
)
def test_cidrs_are_recognized(text, fine):
    assert is_cidr(text) is fine
    assert (check_cidr(text) == []) is fine


@pytest.mark.parametrize(
    ("text", "reasons"),
    [
        ("10.0.0.0/8", []),
        ("fd00::/64", []),
        ("::/0", []),
        ("10.0.0.1/32", []),
        ("10.0.0.1/8", ["must not have bits set beyond the prefix length"]),
        ("fd00::1/64", ["must not have bits set beyond the prefix length"]),
        ("10.0.0.0/08", ["must not have leading 0s in IP or prefix length"]),
        ("::ffff:10.0.0.0/104", ["must not have an IPv4-mapped IPv6 address"]),
    ],
)
def test_new_cidrs_are_checked_more_strictly(text, reasons):
    assert check_cidr(text) == []
    assert check_strict_cidr(text) == reasons


@pytest.mark.parametrize(
    ("text", "reasons"),
    [
        ("fd00::/64", []),
        ("010.0.0.0/8", ["must not have leading 0s in IP or prefix length"]),
        ("fd00:0::/64", ['must be in canonical form ("fd00::/64")']),
        ("fd00::1/64", ["must not have bits set beyond the prefix length"]),
    ],
)
def test_newer_fields_have_canonical_cidrs(text, reasons):
    assert check_canonical_cidr(text) == reasons


@pytest.mark.parametrize(
    ("text", "reasons"),
    [
        ("10.9.8.7/24", []),
        ("fd00:0::1/64", ['must be in canonical form ("fd00::1/64")']),
        ("10.9.8.7", ["must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"]),
    ],
)
def test_addresses_of_interfaces_have_a_prefix(text, reasons):
    assert check_interface_address(text) == reasons


@pytest.mark.parametrize(
    ("resource", "metadata", "generation"),
    [
        ("endpointslices.discovery.k8s.io", "labels", 2),
        ("endpointslices.discovery.k8s.io", "annotations", 1),
        ("deployments.apps", "annotations", 2),
        ("replicasets.apps", "annotations", 1),
    ],
)
def test_some_metadata_are_part_of_what_is_desired(resource, metadata, generation):
    old = {"metadata": {"generation": 1}}
    new = {"metadata": {"generation": 1, metadata: {"a": "b"}}}
    count_generation(new, old, TABLE[resource])
    assert new["metadata"]["generation"] == generation


def test_topology_of_older_endpoint_slices_is_dropped():
    slices = steps("endpointslices.discovery.k8s.io")
    slice_ = with_name("{addressType: IPv4, endpoints: [{addresses: [10.0.0.1], deprecatedTopology: {a: b}}]}")
    made = slices.create(slice_)
    kept = [{"addresses": ["10.0.0.1"], "conditions": {}}]
    assert made["endpoints"] == slices.update(made, slice_)["endpoints"] == kept
