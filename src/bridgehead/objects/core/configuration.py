"""ConfigMaps, Secrets and ServiceAccounts.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.objects.meta import Object, ObjectReference


class ConfigMap(Object, frozen=True, kw_only=True):
    data: dict[str, str] = {}
    binary_data: dict[str, str] = {}
    immutable: bool = False


class Secret(Object, frozen=True, kw_only=True):
    data: dict[str, str] = {}
    type: str = "Opaque"
    immutable: bool = False


class ServiceAccount(Object, frozen=True, kw_only=True):
    secrets: tuple[ObjectReference, ...] = ()
    automount_service_account_token: bool | None = None
