"""The files of configMap, secret, downwardAPI and projected volumes.

Pure: no I/O, no clock, no randomness. Called by `volume_manager` to set a volume up, and again when an object that it
shows has changed. Source: Kubernetes "Volumes" and "Projected Volumes"; messages are those of kubelet's volume plugins.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from bridgehead.kubelet.errors import VolumeNotReady
from bridgehead.objects.core import (
    ConfigMap,
    ConfigMapVolume,
    DownwardAPIFile,
    KeyToPath,
    Pod,
    Secret,
    SecretVolume,
    ServiceAccountTokenProjection,
    Volume,
)

from .downward_api import Addresses, field_value, resource_value
from .volume_owners import volume_group, volume_user

DEFAULT_MODE = 0o644
_TOKEN_MODE = 0o600  # of a token with an owner: only the pod's user and group need it
_GROUP_MODE = 0o440  # added with an fsGroup


class File(NamedTuple):
    """A file of a volume. `user` and `group` own it; None: the kubelet's own."""

    content: bytes
    mode: int
    user: int | None = None
    group: int | None = None


class PayloadSources(msgspec.Struct, frozen=True):
    """The objects and facts that volumes show. The getters return None for a missing object."""

    config_map: Callable[[str], ConfigMap | None]
    secret: Callable[[str], Secret | None]
    token: Callable[[ServiceAccountTokenProjection], str]
    addresses: Addresses
    allocatable: Mapping[str, str | int | float]


def has_payload(volume: Volume) -> bool:
    """Whether the volume consists of files that the kubelet writes."""
    return any((volume.config_map, volume.secret, volume.downward_api, volume.projected))


def token_projections(volume: Volume) -> tuple[ServiceAccountTokenProjection, ...]:
    """Return the service account tokens that a projected volume shows."""
    if volume.projected is None:
        return ()
    return tuple(s.service_account_token for s in volume.projected.sources if s.service_account_token is not None)


def volume_files(volume: Volume, pod: Pod, sources: PayloadSources) -> dict[str, File]:
    """Return path in the volume -> file. Raises `VolumeNotReady` while an object is missing."""
    try:
        files = _files(volume, pod, sources)
    except ValueError as error:
        raise VolumeNotReady(volume.name, str(error)) from error
    group = volume_group(pod)
    if group is None:
        return files
    return {path: file._replace(mode=file.mode | _GROUP_MODE, group=group) for path, file in files.items()}


def _files(volume: Volume, pod: Pod, sources: PayloadSources) -> dict[str, File]:
    if (config_map := volume.config_map) is not None:
        return _config_map_files(config_map, sources, _mode(config_map.default_mode))
    if (secret := volume.secret) is not None:
        return _secret_files(secret, sources, _mode(secret.default_mode))
    if (downward := volume.downward_api) is not None:
        return _downward_files(downward.items, pod, sources, _mode(downward.default_mode))
    files: dict[str, File] = {}
    if volume.projected is not None:
        mode = _mode(volume.projected.default_mode)
        for source in volume.projected.sources:
            if source.config_map is not None:
                files |= _config_map_files(source.config_map, sources, mode)
            if source.secret is not None:
                files |= _secret_files(source.secret, sources, mode)
            if source.downward_api is not None:
                files |= _downward_files(source.downward_api.items, pod, sources, mode)
            if (token := source.service_account_token) is not None:
                user = volume_user(pod)
                has_owner = user is not None or volume_group(pod) is not None
                files[token.path] = File(sources.token(token).encode(), _TOKEN_MODE if has_owner else mode, user)
    return files


def _mode(given: int | None) -> int:
    return DEFAULT_MODE if given is None else given


def _config_map_files(volume: ConfigMapVolume, sources: PayloadSources, mode: int) -> dict[str, File]:
    config_map = sources.config_map(volume.name)
    if config_map is None:
        if volume.optional:
            return {}
        raise ValueError(f'configmap "{volume.name}" not found')
    data = {key: text.encode() for key, text in config_map.data.items()}
    data |= {key: base64.b64decode(text) for key, text in config_map.binary_data.items()}
    return _select(data, volume.items, mode, optional=volume.optional, what="config")


def _secret_files(volume: SecretVolume, sources: PayloadSources, mode: int) -> dict[str, File]:
    name = volume.secret_name or volume.name
    secret = sources.secret(name)
    if secret is None:
        if volume.optional:
            return {}
        raise ValueError(f'secret "{name}" not found')
    data = {key: base64.b64decode(text) for key, text in secret.data.items()}
    return _select(data, volume.items, mode, optional=volume.optional, what="secret")


def _select(
    data: dict[str, bytes], items: tuple[KeyToPath, ...], mode: int, *, optional: bool, what: str
) -> dict[str, File]:
    if not items:
        return {key: File(content, mode) for key, content in data.items()}
    files = {}
    for item in items:
        if item.key in data:
            files[item.path] = File(data[item.key], mode if item.mode is None else item.mode)
        elif not optional:
            # The text differs by kind in Kubernetes, too.
            subject = "configmap " if what == "config" else ""
            raise ValueError(f"{subject}references non-existent {what} key: {item.key}")
    return files


def _downward_files(
    items: tuple[DownwardAPIFile, ...], pod: Pod, sources: PayloadSources, mode: int
) -> dict[str, File]:
    files = {}
    for item in items:
        if item.field_ref is not None:
            text = field_value(item.field_ref.field_path, pod, sources.addresses)
        elif item.resource_field_ref is not None:
            name = item.resource_field_ref.container_name
            containers = pod.spec.containers + pod.spec.init_containers
            container = next((c for c in containers if c.name == name), None)
            if container is None:
                raise ValueError(f"container {name} not found")
            text = resource_value(item.resource_field_ref, pod, container, sources.allocatable)
        else:
            continue
        files[item.path] = File(text.encode(), mode if item.mode is None else item.mode)
    return files


def owned_files(files: Mapping[str, File], id_base: int) -> Mapping[str, File]:
    """Return the files with the node's ids of their owners."""
    if not id_base:
        return files
    return {
        path: file._replace(user=id_base + (file.user or 0), group=id_base + (file.group or 0))
        for path, file in files.items()
    }
