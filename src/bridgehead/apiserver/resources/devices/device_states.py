"""The state of an allocated device in a claim's status: its share, its conditions, its addresses.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `validateDeviceStatus`.
"""

from __future__ import annotations

import re

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resources.shared.address_rules import check_interface_address
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


def validate_share_id(uid: Field) -> None:
    if uid.value is None or (_is_uuid(uid.value) and uid.value == uid.value.lower()):
        return
    if _is_uuid(uid.value):
        uid.invalid(_NOT_NORMAL)
        return
    length = len(uid.value)
    is_other = length == 36 or length in _OTHER_LENGTHS
    uid.invalid(f"error validating uid: invalid UUID {'format' if is_other else f'length: {length}'}")


def validate_device_state(device: Field) -> None:
    conditions, network = device.at("conditions"), device.at("networkData")
    conditions.must_have_at_most(_MAX_CONDITIONS)
    validate_conditions(conditions)
    if "data" in device.value:
        validate_raw_object(device.at("data"))
    for name, limit in _MAX_LENGTHS.items():
        network.at(name).must_have_at_most_bytes(limit)
    validate_items(
        network.at("ips"), _MAX_ADDRESSES, lambda address: address.must_pass(check_interface_address), key=str
    )
