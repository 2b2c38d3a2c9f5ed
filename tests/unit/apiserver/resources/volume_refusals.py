# ruff: noqa: E501
"""Sources of PersistentVolumes in YAML, and the texts of their errors below `spec.`."""

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
IQN = "iqn.2001-04.com.example:disk"
BLOB = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
MANAGED = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
HOST_PORTS = "must be a host:port pair or multiple pairs separated by commas"

SOURCES = [
    ("gcePersistentDisk: {pdName: a, partition: 1}", []),
    ("gcePersistentDisk: {partition: 256}", [
        "persistentDisk.pdName: Required value",
        "persistentDisk.partition: Invalid value: 256: must be between 1 and 255, inclusive"]),
    ("awsElasticBlockStore: {partition: -1}", [
        "awsElasticBlockStore.volumeID: Required value",
        "awsElasticBlockStore.partition: Invalid value: -1: must be between 1 and 255, inclusive"]),
    ("glusterfs: {endpoints: a, path: b, endpointsNamespace: ''}", [
        'glusterfs.endpointsNamespace: Invalid value: "": if the endpointnamespace is set, it must be a valid namespace name']),
    ("glusterfs: {endpointsNamespace: A}", [
        "glusterfs.endpoints: Required value",
        "glusterfs.path: Required value",
        f'glusterfs.endpointsNamespace: Invalid value: "A": {LABEL}']),
    ("flocker: {datasetName: a}", []),
    ("flocker: {}", ["flocker: Required value: one of datasetName and datasetUUID is required"]),
    ("flocker: {datasetName: a/b, datasetUUID: c}", [
        'flocker: Invalid value: "resource": datasetName and datasetUUID can not be specified simultaneously',
        "flocker.datasetName: Invalid value: \"a/b\": must not contain '/'"]),
    ("rbd: {}", ["rbd.monitors: Required value", "rbd.image: Required value"]),
    ("quobyte: {registry: 'a:1,[::1]:2', volume: v}", []),
    ("quobyte: {}", [f"quobyte.registry: Required value: {HOST_PORTS}", "quobyte.volume: Required value"]),
    ("quobyte: {registry: 'a,::1', volume: v}", [f'quobyte.registry: Invalid value: "a,::1": {HOST_PORTS}'] * 2),
    (f"quobyte: {{registry: 'a:1', volume: v, tenant: {'t' * 65}}}", [
        "quobyte.tenant: Required value: must be a UUID and may not exceed a length of 64 characters"]),
    ("cephfs: {}", ["cephfs.monitors: Required value"]),
    (f"iscsi: {{targetPortal: 'a:1', iqn: '{IQN}', lun: 1, initiatorName: eui.0123456789abcdef}}", []),
    ("iscsi: {initiatorName: '', lun: 256, chapAuthSession: true}", [
        "iscsi.targetPortal: Required value",
        "iscsi.iqn: Required value",
        "iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive",
        "iscsi.secretRef: Required value",
        'iscsi.initiatorname: Invalid value: "": must be valid format']),
    (f"iscsi: {{targetPortal: {'p' * 64}, iqn: naa.1, initiatorName: '{IQN}', secretRef: {{}}}}", [
        f'iscsi.targetportal: Invalid value: "{"p" * 64}": Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.',
        'iscsi.iqn: Invalid value: "naa.1": must be valid format',
        "iscsi.secretRef.name: Required value"]),
    ("cinder: {volumeID: a, secretRef: {}}", [
        "cinder.secretRef.name: Required value", "cinder.secretRef.namespace: Required value"]),
    ("fc: {wwids: [a]}", []),
    ("fc: {}", ["fc.targetWWNs: Required value: must specify either targetWWNs or wwids, but not both"]),
    ("fc: {targetWWNs: [a], wwids: [b]}", [
        'fc.targetWWNs: Invalid value: ["a"]: targetWWNs and wwids can not be specified simultaneously',
        "fc.lun: Required value: lun is required if targetWWNs is specified"]),
    ("fc: {targetWWNs: [a], lun: 256}", ["fc.lun: Invalid value: 256: must be between 0 and 255, inclusive"]),
    ("flexVolume: {options: {a/b: c, x.K8s.io/d: e}}", [
        "flexVolume.driver: Required value",
        'flexVolume.options[x.K8s.io/d]: Invalid value: "x.K8s.io/d": kubernetes.io and k8s.io namespaces are reserved']),
    ("azureFile: {secretNamespace: ''}", [
        "azureFile.secretName: Required value",
        "azureFile.shareName: Required value",
        "azureFile.secretNamespace: Required value"]),
    ("vsphereVolume: {}", ["vsphereVolume.volumePath: Required value"]),
    ("photonPersistentDisk: {}", ["photonPersistentDisk.pdID: Required value"]),
    ("portworxVolume: {}", ["portworxVolume.volumeID: Required value"]),
    ("azureDisk: {diskName: a, diskURI: https://b, kind: Dedicated}", []),
    ("azureDisk: {kind: Managed, cachingMode: X}", [
        "azureDisk.diskName: Required value",
        "azureDisk.diskURI: Required value",
        'azureDisk.cachingMode: Unsupported value: "X": supported values: "None", "ReadOnly", "ReadWrite"',
        f'azureDisk.diskURI: Unsupported value: "": supported values: "{MANAGED}"']),
    ("azureDisk: {diskName: a, diskURI: b}", [
        f'azureDisk.diskURI: Unsupported value: "b": supported values: "{BLOB}"']),
    ("scaleIO: {}", [
        "scaleIO.gateway: Required value", "scaleIO.system: Required value", "scaleIO.volumeName: Required value"]),
    ("storageos: {volumeName: a, secretRef: {name: a}}", ["storageos.secretRef.namespace: Required value"]),
    ("storageos: {volumeNamespace: A}", [
        "storageos.volumeName: Required value", f'storageos.volumeNamespace: Invalid value: "A": {LABEL}']),
]  # fmt: skip


def refused_volumes(fields: str) -> list[tuple[str, list[str]]]:
    """Return volumes with other `fields` of the spec and each of the sources, and the texts of their errors."""
    return [(f"{{spec: {{{fields}, {source}}}}}", [f"spec.{text}" for text in texts]) for source, texts in SOURCES]
