"""Volumes of pods.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from typing import Any

from bridgehead.objects.meta import Part

from .environment import ObjectFieldSelector, ResourceFieldSelector


class KeyToPath(Part, frozen=True, kw_only=True):
    key: str
    path: str
    mode: int | None = None


class ConfigMapVolume(Part, frozen=True, kw_only=True):
    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int | None = None
    optional: bool = False


class SecretVolume(Part, frozen=True, kw_only=True):
    secret_name: str = ""
    name: str = ""  # in projected sources; volumes have `secretName`
    items: tuple[KeyToPath, ...] = ()
    default_mode: int | None = None
    optional: bool = False


class EmptyDirVolume(Part, frozen=True, kw_only=True):
    medium: str = ""
    size_limit: str | int | None = None


class HostPathVolume(Part, frozen=True, kw_only=True):
    path: str
    type: str = ""


class DownwardAPIFile(Part, frozen=True, kw_only=True):
    path: str
    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    mode: int | None = None


class DownwardAPIVolume(Part, frozen=True, kw_only=True):
    items: tuple[DownwardAPIFile, ...] = ()
    default_mode: int | None = None


class ServiceAccountTokenProjection(Part, frozen=True, kw_only=True):
    path: str
    audience: str = ""
    expiration_seconds: int = 3600


class VolumeProjection(Part, frozen=True, kw_only=True):
    config_map: ConfigMapVolume | None = None
    secret: SecretVolume | None = None
    downward_api: DownwardAPIVolume | None = None
    service_account_token: ServiceAccountTokenProjection | None = None


class ProjectedVolume(Part, frozen=True, kw_only=True):
    sources: tuple[VolumeProjection, ...] = ()
    default_mode: int | None = None


class ClaimVolume(Part, frozen=True, kw_only=True):
    claim_name: str
    read_only: bool = False


class EphemeralVolume(Part, frozen=True, kw_only=True):
    """A volume whose claim is made for the pod and belongs to it. `volume_claim_template` has metadata and spec."""

    volume_claim_template: dict[str, Any] = {}


class ImageVolume(Part, frozen=True, kw_only=True):
    """The files of an image, read-only."""

    reference: str = ""
    pull_policy: str = ""


class CSIVolume(Part, frozen=True, kw_only=True):
    driver: str = ""


class Volume(Part, frozen=True, kw_only=True):
    name: str
    config_map: ConfigMapVolume | None = None
    secret: SecretVolume | None = None
    empty_dir: EmptyDirVolume | None = None
    host_path: HostPathVolume | None = None
    downward_api: DownwardAPIVolume | None = None
    projected: ProjectedVolume | None = None
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: EphemeralVolume | None = None
    image: ImageVolume | None = None
    csi: CSIVolume | None = None

    def claim_name(self, pod_name: str) -> str:
        """The name of the volume's claim in a pod of that name, "" for a volume without a claim."""
        if self.persistent_volume_claim is not None:
            return self.persistent_volume_claim.claim_name
        return f"{pod_name}-{self.name}" if self.ephemeral is not None else ""
