"""Volumes of claims: the PersistentVolumes of a pod's claims, and their paths on the node.

Called by `volume_manager`. A claim's user need not be one who may choose paths of nodes. A volume whose path leads over
a symbolic link is therefore refused; the runtime refuses a link that is made later. Source: Kubernetes
`pkg/kubelet/volumemanager/populator`, `pkg/volume/hostpath`, `pkg/volume/local`.
"""

from __future__ import annotations

from pathlib import Path

from bridgehead.client import ApiClient
from bridgehead.client.errors import ClientError
from bridgehead.kubelet.errors import VolumeNotReady
from bridgehead.objects.core import HostPathVolume, Pod, Volume
from bridgehead.objects.kinds import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from bridgehead.objects.node_selectors import matches_selector
from bridgehead.objects.storage import (
    HOST_PATH_PROVISIONER,
    PROVISIONED_BY,
    READ_WRITE_ONCE_POD,
    PersistentVolume,
    describe_foreign_claim,
)

from .directories import check_host_path, make_open_directory


class Claims:
    """The volumes of the pods' claims. Each is fetched once: what a bound claim has does not change."""

    def __init__(self, client: ApiClient, node_name: str) -> None:
        self._client = client
        self._node_name = node_name
        self._volumes: dict[str, dict[str, PersistentVolume]] = {}  # by uid of the pod and name of its volume
        self._holders: dict[str, str] = {}  # uid of a volume that is for one pod at a time -> uid of the pod

    async def fetch(self, pod: Pod, volume: Volume) -> None:
        """Fetch the PersistentVolume of a volume with a claim, if it is not there yet, for the pod to use.

        Raises `VolumeNotReady`, also if another pod of this node uses one that is for one pod at a time. The scheduler
        lets no pod get so far; others may.
        """
        claim_name = volume.claim_name(pod.metadata.name)
        if not claim_name:
            return
        volumes = self._volumes.setdefault(pod.metadata.uid, {})
        if volume.name not in volumes:
            try:
                volumes[volume.name] = await self._fetch(pod, volume, claim_name)
            except ClientError as error:
                raise VolumeNotReady(volume.name, str(error)) from error
        found = volumes[volume.name]
        if found.spec.access_modes != (READ_WRITE_ONCE_POD,):
            return
        if self._holders.setdefault(found.metadata.uid, pod.metadata.uid) != pod.metadata.uid:
            raise VolumeNotReady(
                volume.name, "volume uses the ReadWriteOncePod access mode and is already in use by another pod"
            )

    def volume(self, pod: Pod, name: str) -> PersistentVolume:
        """Return a fetched volume."""
        return self._volumes[pod.metadata.uid][name]

    def forget(self, pod_uid: str) -> None:
        self._volumes.pop(pod_uid, None)
        self._holders = {volume: holder for volume, holder in self._holders.items() if holder != pod_uid}

    async def _fetch(self, pod: Pod, volume: Volume, claim_name: str) -> PersistentVolume:
        namespace = pod.metadata.namespace

        def refused(why: str) -> VolumeNotReady:
            return VolumeNotReady(volume.name, f"error processing PVC {namespace}/{claim_name}: {why}")

        claim = await self._client.get(PERSISTENT_VOLUME_CLAIMS, claim_name, namespace)
        if volume.ephemeral is not None and (foreign := describe_foreign_claim(claim, pod)):
            raise VolumeNotReady(volume.name, foreign)
        if claim.metadata.deletion_timestamp is not None:
            raise refused("PVC is being deleted")
        if claim.status.phase != "Bound" or not claim.spec.volume_name:
            raise refused("PVC is not bound")
        found = await self._client.get(PERSISTENT_VOLUMES, claim.spec.volume_name)
        reference = found.spec.claim_ref
        if reference is None or reference.uid != claim.metadata.uid:
            raise refused(f"PV object {found.metadata.name} does not point to the claim")
        if claim.spec.volume_mode == "Block":
            raise refused("volumeMode Block is not supported")
        affinity = found.spec.node_affinity
        if affinity is not None:
            node = await self._client.get(NODES, self._node_name)
            if not matches_selector(affinity.required, node):
                raise refused("MountVolume.NodeAffinity check failed: no matching NodeSelectorTerms")
        return found


def prepare_persistent(volume: PersistentVolume, group: int | None) -> Path:
    """Return the path of a volume on this node; make the directory of a provisioned one, owned by `group` (fsGroup).

    Raises `VolumeNotReady`, ValueError, OSError.
    """
    spec = volume.spec
    source = spec.local or spec.host_path
    if source is None:
        raise ValueError("no volume plugin matched; supported: hostPath, local")
    if spec.mount_options and spec.local is None:
        step = "MountVolume.MountOptionSupport check"
        raise VolumeNotReady(volume.metadata.name, "mount options are not supported", step)
    path = Path(source.path)
    check_links(path)
    if volume.metadata.annotations.get(PROVISIONED_BY) == HOST_PATH_PROVISIONER:
        make_open_directory(path, group)
    elif isinstance(source, HostPathVolume):
        check_host_path(source)
    elif not path.exists():
        name, step = volume.metadata.name, "MountVolume.NewMounter initialization"
        raise VolumeNotReady(name, f'path "{path}" does not exist', step)
    return path


def check_links(path: Path) -> None:
    """Raise ValueError for a path that leads over a symbolic link."""
    for part in (path, *path.parents):
        if part.is_symlink():
            raise ValueError(f'path "{path}" of the volume leads over the symbolic link "{part}"')
