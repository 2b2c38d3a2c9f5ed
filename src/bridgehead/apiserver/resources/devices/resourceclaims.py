"""ResourceClaim (resource.k8s.io/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateResourceClaim`, `ValidateResourceClaimStatusUpdate`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable
from functools import partial

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import CLIENT_METADATA, Column, JsonObject, Resource, StatusStrategy
from bridgehead.apiserver.resources.pods import validate_node_selector
from bridgehead.apiserver.resources.shared.address_rules import check_interface_address
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, at
from bridgehead.apiserver.resources.shared.conditions import validate_conditions
from bridgehead.objects.names import check_dns1123_label, check_dns1123_subdomain

from .device_rules import (
    Names,
    request_names,
    set_claim_defaults,
    validate_binding_conditions,
    validate_claim_spec,
    validate_configuration,
    validate_items,
    validate_pool,
    validate_raw_object,
    validate_request_reference,
    validate_request_references,
)
from .qualified_names import validate_driver

_MAX_CONSUMERS, _MAX_RESULTS, _MAX_CONFIGS = 256, 32, 64
_CONFIG_SOURCES = ("FromClaim", "FromClass")
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


class ResourceClaimStrategy(StatusStrategy):
    @property
    def may_take_long(self) -> bool:
        return True  # selectors are compiled

    def default(self, obj: JsonObject) -> None:
        set_claim_defaults(obj.setdefault("spec", {}))
        obj.setdefault("status", {})

    def prepare_create(self, obj: JsonObject) -> None:
        obj["status"] = {}

    def prepare_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> None:
        super().prepare_update(obj, old, subresource)
        if subresource == "status":
            _forget_deallocated(obj["status"], old.get("status", {}))

    def validate_create(self, obj: Field) -> None:
        validate_claim_spec(obj.at("spec"))

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        if subresource == "status":
            _validate_status(obj, old.get("status", {}))
        else:
            obj.at("spec").must_not_change(old.get("spec"))


def changed_drivers(status: JsonObject, before: JsonObject) -> set[str]:
    """Return the drivers of the devices whose status was added, changed or removed."""
    devices, old = ({_device(one): one for one in each.get("devices") or ()} for each in (status, before))
    return {
        one.get("driver", "")
        for key in devices.keys() | old.keys()
        if devices.get(key) != old.get(key)
        for one in (devices.get(key) or old[key],)
    }


def node_of_allocation(allocation: JsonObject) -> str:
    """Return the node for which an allocation is, "" if it is not for exactly one."""
    match at(allocation, "nodeSelector", "nodeSelectorTerms"):
        case [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [str(name)]}], **more}] if not (
            more.get("matchExpressions")
        ):
            return name
    return ""


def _forget_deallocated(status: JsonObject, before: JsonObject) -> None:
    """Remove the status of devices that a change of the allocation takes from the claim."""
    now, old = (
        {_device(one) for one in at(each, "allocation", "devices", "results") or ()} for each in (status, before)
    )
    if "devices" in status and (gone := old - now):
        status["devices"] = [one for one in status["devices"] if _device(one) not in gone]
        if not status["devices"]:
            del status["devices"]


def _validate_status(claim: Field, before: JsonObject) -> None:
    status, names = claim.at("status"), request_names(at(claim.value, "spec", "devices") or {})
    consumers, allocation = status.at("reservedFor", []), status.at("allocation")
    validate_items(consumers, _MAX_CONSUMERS, _validate_consumer, lambda consumer: consumer.get("uid", ""))
    allocated = {_device(result) for result in at(allocation.value, "devices", "results") or ()}
    validate_items(status.at("devices"), None, partial(_validate_device, allocated=allocated), _device)
    is_deleted = claim.at("metadata").get("deletionTimestamp")
    if consumers and allocation.value is None:
        consumers.forbidden("may not be specified when `allocated` is not set")
    elif is_deleted and any(consumer not in before.get("reservedFor", ()) for consumer in consumers.value):
        consumers.forbidden("new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set")
    if allocation.value is not None and "allocation" in before:
        allocation.must_not_change(before["allocation"])
    elif allocation.value is not None:
        _validate_allocation(allocation, names)


def _validate_device(device: Field, allocated: Collection[Hashable]) -> None:
    _validate_device_id(device)
    _validate_share_id(device.at("shareID"))
    if _device(device.value) not in allocated:
        device.showing("/".join(_key(device.value))).invalid("must be an allocated device in the claim")
    _validate_device_state(device)


def _validate_device_id(device: Field) -> None:
    validate_driver(device.at("driver", ""))
    validate_pool(device.at("pool"))
    device.at("device", "").must_pass(check_dns1123_label)


def _key(device: JsonObject) -> tuple[str, str, str]:
    return device.get("driver", ""), device.get("pool", ""), device.get("device", "")


def _device(device: JsonObject) -> Hashable:
    return (*_key(device), device.get("shareID", ""))


def _validate_consumer(consumer: Field) -> None:
    for name in ("resource", "name", "uid"):
        consumer.at(name).must_be_set()


def _validate_allocation(allocation: Field, names: Names) -> None:
    def validate_result(result: Field) -> None:
        validate_request_reference(result.at("request", ""), names)
        _validate_device_id(result)
        validate_binding_conditions(result)
        _validate_share_id(result.at("shareID"))

    def validate_config(config: Field) -> None:
        config.at("source").must_be_set_to_one_of(_CONFIG_SOURCES)
        validate_request_references(config, names)
        validate_configuration(config)

    devices = allocation.at("devices")
    validate_items(devices.at("results"), _MAX_RESULTS, validate_result)
    validate_items(devices.at("config"), _MAX_CONFIGS, validate_config)
    allocation.at("nodeSelector").must_obey(validate_node_selector)


def _validate_share_id(uid: Field) -> None:
    if uid.value is None or (_is_uuid(uid.value) and uid.value == uid.value.lower()):
        return
    if _is_uuid(uid.value):
        uid.invalid(_NOT_NORMAL)
        return
    length = len(uid.value)
    is_other = length == 36 or length in _OTHER_LENGTHS
    uid.invalid(f"error validating uid: invalid UUID {'format' if is_other else f'length: {length}'}")


def _validate_device_state(device: Field) -> None:
    """Validate the state of an allocated device: its conditions, its data, its addresses."""
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


def _state_cell(claim: JsonObject, now: float) -> str:
    states = []
    if at(claim, "metadata", "deletionTimestamp"):
        states.append("deleted")
    if at(claim, "status", "allocation") is None:
        states.append("pending")
    else:
        states.append("allocated")
        states.extend(["reserved"] if at(claim, "status", "reservedFor") else [])
    return ",".join(states)


RESOURCE = Resource(
    group="resource.k8s.io",
    version="v1",
    kind="ResourceClaim",
    plural="resourceclaims",
    singular="resourceclaim",
    namespaced=True,
    subresources=("status",),
    strategy=ResourceClaimStrategy(),
    columns=(NAME, Column("State", _state_cell), AGE),
    check_name=check_dns1123_subdomain,
    kept_by_status=CLIENT_METADATA,
)
