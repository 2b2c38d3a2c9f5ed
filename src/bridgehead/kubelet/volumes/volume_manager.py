"""The volumes of this node's pods: directories below the kubelet's root, and hostPaths.

Called by the pod worker before the first container starts, when a referenced object has changed, and when the pod is
gone. `projected_volumes` computes the files of a volume; this module puts them on disk. `persistent` has the volumes of
claims.
Source: Kubernetes "Volumes".
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

from bridgehead.client import ApiClient
from bridgehead.client.errors import ClientError
from bridgehead.kubelet.errors import VolumeNotReady, VolumesNotReady
from bridgehead.kubelet.nofollow import remove_tree
from bridgehead.kubelet.uninterrupted import uninterrupted
from bridgehead.network import syscalls
from bridgehead.objects.core import Pod, PodSecurityContext, ServiceAccountTokenProjection, Volume
from bridgehead.objects.storage import PersistentVolume

from .atomic_writer import write_files
from .chown import grant_access
from .directories import check_host_path, make_empty_dir
from .downward_api import Addresses
from .memory_size import memory_size
from .persistent import Claims, prepare_persistent
from .projected_volumes import PayloadSources, has_payload, owned_files, token_projections, volume_files
from .referenced_objects import ReferencedObjects
from .tokens import Tokens
from .volume_owners import volume_group, volume_owner

log = logging.getLogger(__name__)

_LOCAL = "kubernetes.io~local-volume"
_PLUGINS = {
    "config_map": "kubernetes.io~configmap",
    "secret": "kubernetes.io~secret",
    "downward_api": "kubernetes.io~downward-api",
    "projected": "kubernetes.io~projected",
    "empty_dir": "kubernetes.io~empty-dir",
}


class VolumeManager:
    """Sets volumes up below `root` and removes them. `allocatable` is the node's, by resource name."""

    def __init__(
        self,
        root: Path,
        client: ApiClient,
        objects: ReferencedObjects,
        allocatable: Mapping[str, str | int | float],
        node_name: str,
    ) -> None:
        self._root = root
        self._objects = objects
        self._tokens = Tokens(client)
        self._claims = Claims(client, node_name)
        self._allocatable = allocatable

    def pod_directory(self, pod_uid: str) -> Path:
        return self._root / "pods" / pod_uid

    def container_directory(self, pod_uid: str, name: str) -> Path:
        """Return the directory of a container, with one for each of its runs."""
        return self.pod_directory(pod_uid) / "containers" / name

    def empty_dir(self, pod_uid: str, name: str) -> Path:
        """Return the directory of an emptyDir."""
        return self.pod_directory(pod_uid) / "volumes" / _PLUGINS["empty_dir"] / name

    async def prepare(self, pod: Pod, id_base: int = 0) -> tuple[dict[str, str], float | None]:
        """Set every volume up, or update it. `id_base` is the node's id of the pod's root.

        Returns name -> path on the node, and when to call again to renew tokens (seconds since the epoch; None: no
        renewal is due). Raises `VolumesNotReady`, when the others are set up.
        """
        renewals, fetched, failures = [], [], []
        for volume in pod.spec.volumes:
            try:
                renewals += [await self._fetch_token(volume, pod, each) for each in token_projections(volume)]
                await self._claims.fetch(pod, volume)
                fetched.append(volume)
            except VolumeNotReady as error:
                failures.append(error)
        if all(map(has_payload, fetched)):
            # A few small files, as of most pods. A thread would compete for the interpreter at each system call, which
            # costs more than the files do.
            paths, errors = self._prepare_all(pod, fetched, id_base)
        else:
            paths, errors = await uninterrupted(asyncio.to_thread(self._prepare_all, pod, fetched, id_base))
        if failures or errors:
            raise VolumesNotReady([*failures, *errors])
        return paths, min(renewals, default=None)

    async def _fetch_token(self, volume: Volume, pod: Pod, projection: ServiceAccountTokenProjection) -> float:
        try:
            return (await self._tokens.fetch(pod, projection)).renew_at
        except ClientError as error:
            raise VolumeNotReady(volume.name, f"failed to fetch token: {error}") from error

    def _prepare_all(
        self, pod: Pod, volumes: Iterable[Volume], id_base: int
    ) -> tuple[dict[str, str], list[VolumeNotReady]]:
        paths, failures = {}, []
        for volume in volumes:
            if volume.image is None:  # the runtime has the files of images
                try:
                    paths[volume.name] = str(self._prepare(volume, pod, id_base))
                except VolumeNotReady as error:
                    failures.append(error)
        return paths, failures

    def _prepare(self, volume: Volume, pod: Pod, id_base: int) -> Path:
        name = volume.name
        try:
            if volume.host_path is not None:
                return check_host_path(volume.host_path)
            if volume.claim_name(pod.metadata.name):
                persistent = self._claims.volume(pod, volume.name)
                name = persistent.metadata.name  # as in Kubernetes' texts
                path = prepare_persistent(persistent, volume_group(pod))
                claim = volume.persistent_volume_claim
                if persistent.spec.local is not None and not (claim is not None and claim.read_only):
                    self._share_local(pod, persistent, path)
                return path
            directory = self._directory(volume, pod)
            user, group = volume_owner(pod, id_base)
            if has_payload(volume):
                files = owned_files(volume_files(volume, pod, self._sources(pod)), id_base)
                write_files(directory, files, group, user)
            elif volume.empty_dir is not None:
                size = memory_size(volume.empty_dir, pod, self._allocatable)
                make_empty_dir(directory, volume.empty_dir, group, size, user)
            return directory
        except (OSError, ValueError) as error:
            raise VolumeNotReady(name, str(error)) from error

    def _share_local(self, pod: Pod, volume: PersistentVolume, path: Path) -> None:
        """Let the pod's group use the files of a local volume, once, and not when another pod of this node has it.

        A directory below the pod's records that the pod has the volume. Raises OSError, ValueError.
        """
        name, group = volume.metadata.name, volume_group(pod)
        record = self.pod_directory(pod.metadata.uid) / "volumes" / _LOCAL / name
        if record.exists():
            return
        is_used = any(self._root.glob(f"pods/*/volumes/{_LOCAL}/{name}"))
        if group is not None and not is_used:
            context = pod.spec.security_context or PodSecurityContext()
            grant_access(path, group, context.fs_group_change_policy)
        elif group not in (None, path.stat().st_gid):
            log.warning("pod %s: the volume %s is in use, and does not get the group %d", pod.key, name, group)
        record.mkdir(parents=True)

    def _directory(self, volume: Volume, pod: Pod) -> Path:
        if volume.csi is not None:
            raise VolumeNotReady(
                volume.name,
                "kubernetes.io/csi: mounter.SetUpAt failed to get CSI client: driver name"
                f" {volume.csi.driver} not found in the list of registered CSI drivers",
            )
        plugin = next((name for field, name in _PLUGINS.items() if getattr(volume, field) is not None), None)
        if plugin is None:
            raise VolumeNotReady(
                volume.name,
                "no volume plugin matched; supported: emptyDir, hostPath, configMap, secret, downwardAPI, projected, "
                "persistentVolumeClaim, ephemeral, image",
            )
        return self.pod_directory(pod.metadata.uid) / "volumes" / plugin / volume.name

    def _sources(self, pod: Pod) -> PayloadSources:
        namespace = pod.metadata.namespace
        return PayloadSources(
            config_map=lambda name: self._objects.config_map(namespace, name),
            secret=lambda name: self._objects.secret(namespace, name),
            token=lambda projection: self._tokens.get(pod, projection),
            addresses=Addresses(),
            allocatable=self._allocatable,
        )

    async def remove(self, pod_uid: str) -> None:
        """Remove the directory of a pod that is gone. The targets of hostPaths stay."""
        self._tokens.forget(pod_uid)
        self._claims.forget(pod_uid)
        await asyncio.to_thread(remove_pod_directory, self.pod_directory(pod_uid))


def remove_pod_directory(directory: Path) -> None:
    """Remove a pod's directory, and unmount its tmpfs volumes. A missing directory is no error."""
    for entry in directory.glob(f"volumes/{_PLUGINS['empty_dir']}/*"):
        if entry.is_mount():
            with contextlib.suppress(OSError):
                syscalls.umount(str(entry), syscalls.MNT_DETACH)
    remove_tree(directory)
