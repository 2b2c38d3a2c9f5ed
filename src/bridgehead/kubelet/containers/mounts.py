"""The mounts of a container, from its volumeMounts.

Pure: no I/O, no clock, no randomness. Called when a container is about to start. Source: kubelet's `makeMounts`. Only
the text of a subPath is checked here: `start` prepares its directory, and the runtime resolves it beneath the volume's
descriptor, since the content of a volume may change at any time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bridgehead.kubelet.errors import ArgumentListTooLong, ConfigNotReady
from bridgehead.kubelet.runtimes.runtime import Mount
from bridgehead.objects.core import Container, ImageVolume, Pod, VolumeMount

from .argument_list import expand, missing_references

PATH_MAX: Final = 4096  # bytes of a path with its final NUL (linux/limits.h)


def plan_mounts(pod: Pod, container: Container, env: Mapping[str, str], volumes: Mapping[str, str]) -> list[Mount]:
    """Return the mounts of `container`. `volumes` is name -> path on the node. Raises `ConfigNotReady`."""
    sources = {volume.name: volume for volume in pod.spec.volumes}
    mounts = []
    for mount in container.volume_mounts:
        volume = sources.get(mount.name)
        if volume is not None and volume.image is not None:
            image, sub_path = volume.image.reference, _sub_path(mount, env)
            mounts.append(Mount(source="", target=mount.mount_path, read_only=True, sub_path=sub_path, image=image))
            continue
        path = volumes.get(mount.name)
        if path is None or volume is None:
            raise ConfigNotReady(f'cannot find volume "{mount.name}" to mount into container "{container.name}"')
        claim = volume.persistent_volume_claim
        has_claim = claim is not None or volume.ephemeral is not None
        is_written_by_kubelet = volume.empty_dir is None and volume.host_path is None and not has_claim
        mounts.append(
            Mount(
                source=path,
                target=mount.mount_path,
                read_only=mount.read_only or is_written_by_kubelet or (claim is not None and claim.read_only),
                sub_path=_sub_path(mount, env),
                # A claim is for users who may not choose a path of the node, so a link must not choose one, either.
                follows_links=not has_claim,
            )
        )
    return mounts


def volume_images(pod: Pod, container: Container) -> list[ImageVolume]:
    """Return the images whose files `container` mounts."""
    mounted = {mount.name for mount in container.volume_mounts}
    return [volume.image for volume in pod.spec.volumes if volume.image is not None and volume.name in mounted]


def _sub_path(mount: VolumeMount, env: Mapping[str, str]) -> str:
    if mount.sub_path_expr and (missing := missing_references(mount.sub_path_expr, env)):
        raise ConfigNotReady(f"missing value for {', '.join(missing)}")
    try:
        path = mount.sub_path or expand(mount.sub_path_expr, env)
    except ArgumentListTooLong:
        raise _too_long(mount) from None
    if len(path.encode()) >= PATH_MAX:
        raise _too_long(mount)
    if path.startswith("/"):
        raise ConfigNotReady(f"error SubPath `{path}` must not be an absolute path")
    if ".." in path.split("/"):
        raise ConfigNotReady(f"unable to provision SubPath `{path}`: must not contain '..'")
    return path


def _too_long(mount: VolumeMount) -> ConfigNotReady:
    return ConfigNotReady(
        f'the subPath of volumeMount "{mount.name}" is longer than the {PATH_MAX - 1} bytes that a path may have'
    )
