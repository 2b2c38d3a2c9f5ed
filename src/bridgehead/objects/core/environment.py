"""Environment variables of containers, and selectors of the values that they and volumes take.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.objects.meta import Part


class ObjectFieldSelector(Part, frozen=True, kw_only=True):
    field_path: str
    api_version: str = "v1"


class ResourceFieldSelector(Part, frozen=True, kw_only=True):
    resource: str
    container_name: str = ""
    divisor: str | int = ""


class KeySelector(Part, frozen=True, kw_only=True):
    """Reference to one key of a ConfigMap or a Secret."""

    key: str
    name: str = ""
    optional: bool = False


class FileKeySelector(Part, frozen=True, kw_only=True):
    """Reference to one variable of an env file in a volume of the pod."""

    volume_name: str
    path: str
    key: str
    optional: bool = False


class EnvVarSource(Part, frozen=True, kw_only=True):
    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    config_map_key_ref: KeySelector | None = None
    secret_key_ref: KeySelector | None = None
    file_key_ref: FileKeySelector | None = None


class EnvVar(Part, frozen=True, kw_only=True):
    name: str
    value: str = ""
    value_from: EnvVarSource | None = None


class SourceReference(Part, frozen=True, kw_only=True):
    name: str = ""
    optional: bool = False


class EnvFromSource(Part, frozen=True, kw_only=True):
    prefix: str = ""
    config_map_ref: SourceReference | None = None
    secret_ref: SourceReference | None = None
