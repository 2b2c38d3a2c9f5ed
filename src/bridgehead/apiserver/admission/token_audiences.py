"""The audiences for which a node may ask tokens of a pod: those of its volumes and of their CSI drivers.

Source: plugin/pkg/admission/noderestriction, also for the texts.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared.columns import at
from bridgehead.storage import Key, Store

# The drivers of volumes that were once built in.
_DRIVERS = {
    "awsElasticBlockStore": "ebs.csi.aws.com",
    "azureDisk": "disk.csi.azure.com",
    "azureFile": "file.csi.azure.com",
    "cinder": "cinder.csi.openstack.org",
    "gcePersistentDisk": "pd.csi.storage.gke.io",
    "portworxVolume": "pxd.portworx.com",
    "vsphereVolume": "csi.vsphere.vmware.com",
}


def uses_audience(store: Store, pod: JsonObject, audience: str) -> bool:
    """Whether a pod's volumes need tokens for an audience; "" is the API server itself.

    Raises LookupError with a text if no volume is known to, and an object that belongs to one does not exist.
    """
    missing = []
    for volume in at(pod, "spec", "volumes") or ():
        sources = at(volume, "projected", "sources") or ()
        tokens = [source["serviceAccountToken"] for source in sources if source.get("serviceAccountToken")]
        if any(token.get("audience", "") == audience for token in tokens):
            return True
        try:
            driver = _driver_of(store, pod, volume)
            if driver and audience in _audiences(store, driver):
                return True
        except LookupError as error:
            missing.append(str(error))
    if missing:
        texts = list(dict.fromkeys(missing))
        raise LookupError(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
    return False


def _driver_of(store: Store, pod: JsonObject, volume: JsonObject) -> str:
    """Return the name of the CSI driver of a volume, "" without one."""
    claim = at(volume, "persistentVolumeClaim", "claimName")
    if volume.get("ephemeral"):
        claim = f"{pod['metadata']['name']}-{volume['name']}"
    if claim is None:
        return _own_driver(volume)
    found = _read(store, Key("persistentvolumeclaims", pod["metadata"]["namespace"], claim), "persistentvolumeclaim")
    name = at(found, "spec", "volumeName") or ""
    return _own_driver(_read(store, Key("persistentvolumes", "", name), "persistentvolume")["spec"])


def _own_driver(source: JsonObject) -> str:
    migrated = next((driver for kind, driver in _DRIVERS.items() if source.get(kind)), "")
    return at(source, "csi", "driver") or migrated


def _audiences(store: Store, driver: str) -> set[str]:
    found = _read(store, Key("csidrivers.storage.k8s.io", "", driver), "csidriver.storage.k8s.io")
    return {one.get("audience", "") for one in at(found, "spec", "tokenRequests") or ()}


def _read(store: Store, key: Key, kind: str) -> Any:
    record = store.get(key) if key.name else None
    if record is None:
        raise LookupError(f'{kind} "{key.name}" not found')
    return msgspec.json.decode(record.value)
