"""The state of an allocated device in a claim's status: its share, its conditions, its addresses.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `validateDeviceStatus`.
"""

from __future__ import annotations

import re

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.addresses import check_interface_address
from bridgehead.apiserver.resources.shared.conditions import validate_conditions

from .device_rules import validate_items, validate_raw_object

_MAX_CONDITIONS, _MAX_ADDRESSES = 8, 16
_MAX_LENGTHS = {"interfaceName": 256, "hardwareAddress": 128}
_HEX = "[0-9a-fA-F]"
_is_uuid = re.compile(f"{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}").fullmatch
# The lengths of the other forms that parsers know: with a prefix, in braces, without dashes.
_OTHER_LENGTHS = {len("urn:uuid:") + 36, 38, 32}
_NOT_NORMAL = (
    "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal "
    "characters"
)


def validate_share_id(path: str, uid: str | None) -> list[FieldError]:
    if uid is None or (_is_uuid(uid) and uid == uid.lower()):
        return []
    if _is_uuid(uid):
        return [field.invalid(path, uid, _NOT_NORMAL)]
    is_other = len(uid) == 36 or len(uid) in _OTHER_LENGTHS
    why = "invalid UUID format" if is_other else f"invalid UUID length: {len(uid)}"
    return [field.invalid(path, uid, f"error validating uid: {why}")]


def validate_device_state(path: str, device: JsonObject) -> list[FieldError]:
    errors: list[FieldError] = []
    if conditions := device.get("conditions"):
        if len(conditions) > _MAX_CONDITIONS:
            errors.append(field.too_many(f"{path}.conditions", len(conditions), _MAX_CONDITIONS))
        errors.extend(field.errors_below(f"{path}.conditions", validate_conditions, conditions))
    if "data" in device:
        errors.extend(validate_raw_object(f"{path}.data", device["data"]))
    network = device.get("networkData") or {}
    errors.extend(
        field.too_long(f"{path}.networkData.{name}", limit)
        for name, limit in _MAX_LENGTHS.items()
        if len(network.get(name, "").encode()) > limit
    )
    addresses, item = network.get("ips", ()), f"{path}.networkData.ips"
    return errors + validate_items(item, addresses, _MAX_ADDRESSES, _validate_address, str)


def _validate_address(path: str, address: str) -> list[FieldError]:
    return field.invalid_for(path, address, check_interface_address(address))
