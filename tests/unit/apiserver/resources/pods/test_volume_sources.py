"""Volumes of storage systems outside of the cluster."""

import pytest

from tests.unit.apiserver.resources.steps import Steps, from_yaml, table

TABLE = table()
IQN = "iqn.2015-02.example.com:test"
FORMATS = "must be valid format starting with iqn, eui, or naa"
PAIRS = "must be a host:port pair or multiple pairs separated by commas"
REFUSALS = [
    ("{gitRepo: {repository: a, directory: b}}", []),
    ("{gitRepo: {directory: /a}}", [
        "{}.gitRepo.repository: Required value",
        '{}.gitRepo.directory: Invalid value: "/a": must be a relative path']),
    ("{gcePersistentDisk: {partition: 256}}", [
        "{}.persistentDisk.pdName: Required value",
        "{}.persistentDisk.partition: Invalid value: 256: must be between 1 and 255, inclusive"]),
    ("{awsElasticBlockStore: {volumeID: a, partition: 0}}", []),
    ("{nfs: {}}", [
        "{}.nfs.server: Required value",
        "{}.nfs.path: Required value",
        '{}.nfs.path: Invalid value: "": must be an absolute path']),
    (f"{{iscsi: {{targetPortal: a, iqn: '{IQN}', lun: 1}}}}", []),
    ("{iscsi: {chapAuthSession: true, lun: 256, initiatorName: eui.1}}", [
        "{}.iscsi.targetPortal: Required value",
        "{}.iscsi.iqn: Required value",
        "{}.iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive",
        "{}.iscsi.secretRef: Required value",
        '{}.iscsi.initiatorname: Invalid value: "eui.1": must be valid format']),
    ("{iscsi: {targetPortal: a, iqn: x}}", [f'{{}}.iscsi.iqn: Invalid value: "x": {FORMATS}']),
    (f"{{iscsi: {{targetPortal: {'a' * 63}, iqn: '{IQN}', initiatorName: '{IQN}'}}}}", [
        '{}.name: Invalid value: "v": Total length of <volume name>:<iscsi.targetPortal> must be under 64 '
        "characters if iscsi.initiatorName is specified."]),
    ("{fc: {}}", [
        "{}.fc.targetWWNs: Required value: must specify either targetWWNs or wwids, but not both"]),
    ("{fc: {targetWWNs: [a], wwids: [b]}}", [
        '{}.fc.targetWWNs: Invalid value: ["a"]: targetWWNs and wwids can not be specified simultaneously',
        "{}.fc.lun: Required value: lun is required if targetWWNs is specified"]),
    ("{fc: {targetWWNs: [a], lun: -1}}", [
        "{}.fc.lun: Invalid value: -1: must be between 0 and 255, inclusive"]),
    ("{flocker: {}}", ["{}.flocker: Required value: one of datasetName and datasetUUID is required"]),
    ("{flocker: {datasetName: a/b, datasetUUID: c}}", [
        '{}.flocker: Invalid value: "resource": datasetName and datasetUUID can not be specified simultaneously',
        "{}.flocker.datasetName: Invalid value: \"a/b\": must not contain '/'"]),
    ("{quobyte: {}}", [f"{{}}.quobyte.registry: Required value: {PAIRS}", "{}.quobyte.volume: Required value"]),
    ("{quobyte: {registry: 'a:1,b', volume: c}}", [f'{{}}.quobyte.registry: Invalid value: "a:1,b": {PAIRS}']),
    (f"{{quobyte: {{registry: 'a:1', tenant: {'a' * 65}, volume: c}}}}", [
        "{}.quobyte.tenant: Required value: must be a UUID and may not exceed a length of 64 characters"]),
    ("{glusterfs: {}, rbd: {}}", [
        "{}.glusterfs.endpoints: Required value",
        "{}.glusterfs.path: Required value",
        "{}.rbd: Forbidden: may not specify more than 1 volume type"]),
    ("{rbd: {}, cephfs: {}, downwardAPI: {}}", [
        "{}.rbd.monitors: Required value",
        "{}.rbd.image: Required value",
        "{}.cephFS: Forbidden: may not specify more than 1 volume type",
        "{}.downwarAPI: Forbidden: may not specify more than 1 volume type"]),
    ("{cinder: {secretRef: {}}}", ["{}.cinder.volumeID: Required value", "{}.cinder.secretRef.name: Required value"]),
    ("{flexVolume: {options: {a: b, Storage.K8S.io/c: d}}}", [
        "{}.flexVolume.driver: Required value",
        '{}.flexVolume.options[Storage.K8S.io/c]: Invalid value: "Storage.K8S.io/c": kubernetes.io and k8s.io '
        "namespaces are reserved"]),
    ("{azureFile: {}}", ["{}.azureFile.secretName: Required value", "{}.azureFile.shareName: Required value"]),
    ("{azureDisk: {kind: Managed, diskName: a, diskURI: b, cachingMode: Some}}", [
        '{}.azureDisk.cachingMode: Unsupported value: "Some": supported values: "None", "ReadOnly", "ReadWrite"',
        '{}.azureDisk.diskURI: Unsupported value: "b": supported values: "/subscriptions/{sub-id}/resourcegroups/'
        '{group-name}/providers/microsoft.compute/disks/{disk-id}"']),
    ("{azureDisk: {diskName: a, diskURI: b}}", [
        '{}.azureDisk.diskURI: Unsupported value: "b": supported values: "https://{account-name}.blob.core.windows.net/'
        '{container-name}/{disk-name}.vhd"']),
    ("{scaleIO: {gateway: a}}", ["{}.scaleIO.system: Required value", "{}.scaleIO.volumeName: Required value"]),
    ("{storageos: {volumeName: a, volumeNamespace: b.c, secretRef: {}}}", [
        '{}.storageos.volumeNamespace: Invalid value: "b.c": must not contain dots',
        "{}.storageos.secretRef.name: Required value"]),
    ("{csi: {driver: d, nodePublishSecretRef: {name: s}}}", []),
    ("{csi: {driver: d, nodePublishSecretRef: {}}}", ["{}.csi.nodePublishSecretRef.name: Required value"]),
    ("{ephemeral: {volumeClaimTemplate: {metadata: {name: a, uid: b}, spec: {accessModes: [ReadWriteOnce], "
     "resources: {requests: {storage: 1Gi}}}}}}", [
        "{}.ephemeral.volumeClaimTemplate.metadata.name: Forbidden: cannot be set",
        "{}.ephemeral.volumeClaimTemplate.metadata.uID: Forbidden: cannot be set"]),
    ("{}", []),
]  # fmt: skip
DEFAULTS = [
    ({"iscsi": {}}, {"iscsi": {"iscsiInterface": "default", "lun": 0}}),
    ({"rbd": {}}, {"rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"}}),
    (
        {"azureDisk": {"kind": "Managed"}},
        {"azureDisk": {"kind": "Managed", "cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False}},
    ),
    ({"scaleIO": {"fsType": "ext4"}}, {"scaleIO": {"fsType": "ext4", "storageMode": "ThinProvisioned"}}),
]


def pod(*volumes):
    spec = {"containers": [{"name": "a", "image": "b"}], "volumes": list(volumes)}
    return {"metadata": {"name": "web", "namespace": "default"}, "spec": spec}


@pytest.mark.parametrize(("fields", "expected"), REFUSALS, ids=[fields for fields, _ in REFUSALS])
def test_refusals(fields, expected):
    refused = Steps(TABLE["pods"]).refusal(pod({"name": "v", **from_yaml(fields)}))
    assert refused == [text.replace("{}", "spec.volumes[0]", 1) for text in expected]


@pytest.mark.parametrize(("given", "expected"), DEFAULTS, ids=[str(given) for given, _ in DEFAULTS])
def test_defaults(given, expected):
    obj = pod(given)
    TABLE["pods"].strategy.default(obj)
    assert obj["spec"]["volumes"] == [expected]


def test_names_of_claims_that_ephemeral_volumes_get():
    claim = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    ephemeral = {"ephemeral": {"volumeClaimTemplate": claim}}
    used = {"name": "c", "persistentVolumeClaim": {"claimName": "web-b"}}
    assert Steps(TABLE["pods"]).refusal(pod({"name": "b", **ephemeral}, used)) == [
        'spec.volumes[1].persistentVolumeClaim.claimName: Invalid value: "web-b": must not reference a PVC that gets '
        "created for an ephemeral volume"
    ]
    (*_, last) = Steps(TABLE["pods"]).refusal(pod({"name": "B", **ephemeral}))
    start = 'spec.volumes[0].name: Invalid value: "B": PVC name "web-B": a lowercase RFC 1123 subdomain must'
    assert last.startswith(start)
