"""ResourceClaim (resource.k8s.io/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateResourceClaim`, `ValidateResourceClaimStatusUpdate`.
"""

from __future__ import annotations

from collections.abc import Hashable

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import CLIENT_METADATA, Column, JsonObject, Resource, StatusStrategy
from bridgehead.apiserver.resources.pods import validate_node_selector
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, at
from bridgehead.objects.names import check_dns1123_subdomain

from .device_rules import (
    Names,
    request_names,
    set_claim_defaults,
    validate_binding_conditions,
    validate_claim_spec,
    validate_configuration,
    validate_items,
    validate_label_name,
    validate_pool,
    validate_request_reference,
)
from .device_states import validate_device_state, validate_share_id
from .qualified_names import validate_driver

_MAX_CONSUMERS, _MAX_RESULTS, _MAX_CONFIGS, _MAX_REQUESTS = 256, 32, 64, 32
_CONFIG_SOURCES = ("FromClaim", "FromClass")


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

    def validate_create(self, obj: JsonObject) -> list[FieldError]:
        return validate_claim_spec("spec", obj.get("spec", {}))

    def validate_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> list[FieldError]:
        if subresource == "status":
            return _validate_status("status", obj, old)
        if obj.get("spec") == old.get("spec"):
            return []
        return [field.invalid("spec", obj.get("spec"), field.IMMUTABLE)]


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


def _validate_status(path: str, claim: JsonObject, old: JsonObject) -> list[FieldError]:
    status, before = claim.get("status", {}), old.get("status", {})
    consumers, allocation = status.get("reservedFor", []), status.get("allocation")
    names = request_names(at(claim, "spec", "devices") or {})
    errors = validate_items(
        f"{path}.reservedFor", consumers, _MAX_CONSUMERS, _validate_consumer, lambda one: one.get("uid", "")
    )
    allocated = {_device(result) for result in at(allocation, "devices", "results") or ()}

    def validate_device(item: str, device: JsonObject) -> list[FieldError]:
        found = validate_driver(f"{item}.driver", device.get("driver", ""))
        found.extend(validate_pool(f"{item}.pool", device.get("pool", "")))
        found.extend(validate_label_name(f"{item}.device", device.get("device", "")))
        found.extend(validate_share_id(f"{item}.shareID", device.get("shareID")))
        if _device(device) not in allocated:
            found.append(
                field.invalid(item, "/".join(map(str, _key(device))), "must be an allocated device in the claim")
            )
        return found + validate_device_state(item, device)

    errors.extend(validate_items(f"{path}.devices", status.get("devices", ()), -1, validate_device, _device))
    if consumers and allocation is None:
        errors.append(field.forbidden(f"{path}.reservedFor", "may not be specified when `allocated` is not set"))
    elif at(claim, "metadata", "deletionTimestamp") and any(c not in before.get("reservedFor", ()) for c in consumers):
        detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        errors.append(field.forbidden(f"{path}.reservedFor", detail))
    if allocation is not None and "allocation" in before:
        if allocation != before["allocation"]:
            errors.append(field.invalid(f"{path}.allocation", allocation, field.IMMUTABLE))
    elif allocation is not None:
        errors.extend(_validate_allocation(f"{path}.allocation", allocation, names))
    return errors


def _key(device: JsonObject) -> tuple[str, str, str]:
    return device.get("driver", ""), device.get("pool", ""), device.get("device", "")


def _device(device: JsonObject) -> Hashable:
    return (*_key(device), device.get("shareID", ""))


def _validate_consumer(path: str, consumer: JsonObject) -> list[FieldError]:
    return [field.required(f"{path}.{name}") for name in ("resource", "name", "uid") if not consumer.get(name)]


def _validate_allocation(path: str, allocation: JsonObject, names: Names) -> list[FieldError]:
    def validate_result(item: str, result: JsonObject) -> list[FieldError]:
        errors = validate_request_reference(f"{item}.request", result.get("request", ""), names)
        errors.extend(validate_driver(f"{item}.driver", result.get("driver", "")))
        errors.extend(validate_pool(f"{item}.pool", result.get("pool", "")))
        errors.extend(validate_label_name(f"{item}.device", result.get("device", "")))
        errors.extend(validate_binding_conditions(item, result))
        return errors + validate_share_id(f"{item}.shareID", result.get("shareID"))

    def validate_config(item: str, config: JsonObject) -> list[FieldError]:
        source = config.get("source", "")
        errors = (
            field.one_of(f"{item}.source", source, _CONFIG_SOURCES) if source else [field.required(f"{item}.source")]
        )
        errors.extend(
            validate_items(
                f"{item}.requests",
                config.get("requests", ()),
                _MAX_REQUESTS,
                lambda where, name: validate_request_reference(where, name, names),
                str,
            )
        )
        return [*errors, *validate_configuration(item, config)]

    devices = allocation.get("devices", {})
    errors = validate_items(f"{path}.devices.results", devices.get("results", ()), _MAX_RESULTS, validate_result)
    errors.extend(validate_items(f"{path}.devices.config", devices.get("config", ()), _MAX_CONFIGS, validate_config))
    if "nodeSelector" in allocation:
        errors.extend(field.errors_below(f"{path}.nodeSelector", validate_node_selector, allocation["nodeSelector"]))
    return errors


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
