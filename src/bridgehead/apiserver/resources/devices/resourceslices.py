"""ResourceSlice (resource.k8s.io/v1): its entry in the table and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateResourceSlice`, `ValidateResourceSliceUpdate`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject, Resource, Strategy
from bridgehead.apiserver.resources.pods import validate_node_selector
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, at, selectable, text_column
from bridgehead.objects.names import check_dns1123_subdomain, check_label_value, check_qualified_name

from .device_rules import (
    name_of,
    validate_binding_conditions,
    validate_items,
    validate_label_name,
    validate_pool,
)
from .qualified_names import MAX_QUALIFIED_NAME, shorten_key, validate_driver, validate_qualified
from .request_policies import validate_request_policy

_MAX_DEVICES, _MAX_TAINTED_DEVICES, _MAX_ATTRIBUTES, _MAX_COUNTER_SETS, _MAX_COUNTERS = 128, 64, 32, 8, 32
_MAX_CONSUMPTIONS, _MAX_TAINTS = 2, 16
_MAX_VALUE, _MAX_LABEL = 64, 63
_TAINT_EFFECTS = ("NoExecute", "NoSchedule", "None")
_LISTS = {"bools", "ints", "strings", "versions"}
_VALUES = ("bool", "int", "string", "version", "bools", "ints", "strings", "versions")
_NUMBER, _PRE_RELEASE = r"(0|[1-9]\d*)", r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_SEMANTIC_VERSION = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_PRE_RELEASE}(\.{_PRE_RELEASE})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?"
)
_NODE_FIELDS = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_ONE_NODE_FIELD = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_ONE_NODE_FIELD_OF_DEVICE = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true "
    "in the ResourceSlice spec"
)
_NO_NODE_FIELD_OF_DEVICE = (
    "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the "
    "ResourceSlice spec"
)


class ResourceSliceStrategy(Strategy):
    def default(self, obj: JsonObject) -> None:
        obj.setdefault("spec", {}).setdefault("pool", {}).setdefault("generation", 0)

    def prepare_create(self, obj: JsonObject) -> None:
        _drop_lists(obj, {})

    def prepare_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> None:
        _drop_lists(obj, old)

    def validate_create(self, obj: JsonObject) -> list[FieldError]:
        return _validate_spec("spec", obj.get("spec", {}), {})

    def validate_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> list[FieldError]:
        paths = (("pool", "name"), ("driver",), ("nodeName",))
        return _validate_spec("spec", obj.get("spec", {}), old.get("spec", {})) + [
            field.invalid(".".join(("spec", *path)), at(obj, "spec", *path), field.IMMUTABLE)
            for path in paths
            if at(obj, "spec", *path) != at(old, "spec", *path)
        ]


def _attributes(obj: JsonObject) -> Iterator[JsonObject]:
    for device in at(obj, "spec", "devices") or ():
        yield from device.get("attributes", {}).values()


def _drop_lists(obj: JsonObject, old: JsonObject) -> None:
    """Remove lists of values, whose gate DRAListTypeAttributes is off, unless `old` has some."""
    having = [one for one in _attributes(obj) if not one.keys().isdisjoint(_LISTS)]
    if having and all(one.keys().isdisjoint(_LISTS) for one in _attributes(old)):
        for attribute in having:
            for name in _LISTS & attribute.keys():
                del attribute[name]


def _validate_spec(path: str, spec: JsonObject, before: JsonObject) -> list[FieldError]:
    pool, devices = spec.get("pool", {}), spec.get("devices", ())
    errors = validate_driver(f"{path}.driver", spec.get("driver", ""))
    errors.extend(validate_pool(f"{path}.pool.name", pool.get("name", "")))
    count, generation = pool.get("resourceSliceCount", 0), pool.get("generation", 0)
    if count <= 0:
        errors.append(field.invalid(f"{path}.pool.resourceSliceCount", count, "must be greater than zero"))
    if generation < 0:
        detail = "must be greater than or equal to zero"
        errors.append(field.invalid(f"{path}.pool.generation", generation, detail))
    errors.extend(_validate_nodes(path, spec))
    if "sharedCounters" in spec and "devices" in spec:
        errors.append(field.invalid(path, "", "only one of `sharedCounters` or `devices` is allowed"))
    per_device = spec.get("perDeviceNodeSelection", False)
    has_more = any(device.get("taints") or device.get("consumesCounters") for device in devices)
    limit = _MAX_TAINTED_DEVICES if has_more else _MAX_DEVICES
    old = {name_of(device): device for device in before.get("devices", ())}
    errors.extend(
        validate_items(
            f"{path}.devices",
            devices,
            limit,
            lambda item, device: _validate_device(item, device, old.get(name_of(device)), per_device=per_device),
            name_of,
        )
    )
    counters = spec.get("sharedCounters", ())
    errors.extend(validate_items(f"{path}.sharedCounters", counters, _MAX_COUNTER_SETS, _validate_counter_set, name_of))
    return errors


def _validate_nodes(path: str, spec: JsonObject) -> list[FieldError]:
    errors = []
    chosen = [f"`{name}`" for name in _NODE_FIELDS if spec.get(name) or (name == "nodeSelector" and name in spec)]
    if "nodeName" in spec:
        errors.extend(_validate_node_name(path, spec["nodeName"], "must be either unset or set to a non-empty string"))
    if "nodeSelector" in spec:
        errors.extend(field.errors_below(f"{path}.nodeSelector", validate_node_selector, spec["nodeSelector"]))
        terms = spec["nodeSelector"].get("nodeSelectorTerms", [])
        if len(terms) != 1:
            item = f"{path}.nodeSelector.nodeSelectorTerms"
            errors.append(field.invalid(item, terms, "must have exactly one node selector term"))
    errors.extend(
        field.invalid(f"{path}.{name}", False, "must be either unset or set to true")
        for name in ("allNodes", "perDeviceNodeSelection")
        if name in spec and not spec[name]
    )
    if not chosen:
        errors.append(field.required(path, _ONE_NODE_FIELD))
    elif len(chosen) > 1:
        detail = f"{_ONE_NODE_FIELD}, but multiple fields are set"
        errors.append(field.invalid(path, f"{{{', '.join(chosen)}}}", detail))
    return errors


def _validate_node_name(path: str, name: str, when_empty: str) -> list[FieldError]:
    if not name:
        return [field.invalid(f"{path}.nodeName", name, when_empty)]
    return field.invalid_for(f"{path}.nodeName", name, check_dns1123_subdomain(name))


def _validate_device(path: str, device: JsonObject, old: JsonObject | None, *, per_device: bool) -> list[FieldError]:
    attributes, capacity = device.get("attributes", {}), device.get("capacity", {})
    errors = validate_label_name(f"{path}.name", name_of(device))
    total = len(attributes) + len(capacity)
    if total > _MAX_ATTRIBUTES:
        detail = f"the total number of attributes and capacities must not exceed {_MAX_ATTRIBUTES}"
        errors.append(field.invalid(path, total, detail))
    for name, attribute in attributes.items():
        item = f"{path}.attributes[{shorten_key(name, MAX_QUALIFIED_NAME)}]"
        errors.extend(validate_qualified(item, name))
        errors.extend(_validate_attribute(item, attribute))
    for name, one in capacity.items():
        item = f"{path}.capacity[{shorten_key(name, MAX_QUALIFIED_NAME)}]"
        errors.extend(validate_qualified(item, name))
        if "requestPolicy" not in one:
            continue
        if device.get("allowMultipleAllocations"):
            errors.extend(validate_request_policy(f"{item}.requestPolicy", one.get("value", "0"), one["requestPolicy"]))
        else:
            errors.append(field.forbidden(f"{item}.requestPolicy", "allowMultipleAllocations must be true"))
    taints = device.get("taints", ())
    if taints and (old is None or taints != old.get("taints", ())):
        errors.extend(validate_items(f"{path}.taints", taints, _MAX_TAINTS, _validate_taint))
    errors.extend(
        validate_items(
            f"{path}.consumesCounters",
            device.get("consumesCounters", ()),
            _MAX_CONSUMPTIONS,
            _validate_consumption,
            lambda one: one.get("counterSet", ""),
        )
    )
    errors.extend(_validate_device_nodes(path, device, per_device=per_device))
    return errors + validate_binding_conditions(path, device)


def _validate_device_nodes(path: str, device: JsonObject, *, per_device: bool) -> list[FieldError]:
    given = [name for name in ("nodeName", "nodeSelector", "allNodes") if name in device]
    if not per_device:
        return [field.invalid(path, None, _NO_NODE_FIELD_OF_DEVICE)] if given else []
    errors = []
    if "nodeName" in device:
        errors.extend(_validate_node_name(path, device["nodeName"], "must not be empty"))
    if "nodeSelector" in device:
        errors.extend(field.errors_below(f"{path}.nodeSelector", validate_node_selector, device["nodeSelector"]))
    if "allNodes" in device and not device["allNodes"]:
        errors.append(field.invalid(f"{path}.allNodes", False, "must be either unset or set to true"))
    chosen = [f"`{name}`" for name in given if device[name] or name == "nodeSelector"]
    if not chosen:
        errors.append(field.required(path, _ONE_NODE_FIELD_OF_DEVICE))
    elif len(chosen) > 1:
        errors.append(field.invalid(path, f"{{{', '.join(chosen)}}}", _ONE_NODE_FIELD_OF_DEVICE))
    return errors


def _validate_attribute(path: str, attribute: JsonObject) -> list[FieldError]:
    errors: list[FieldError] = []
    given: dict[str, Any] = {name: attribute[name] for name in _VALUES if name in attribute}
    texts = [("string", given["string"])] if "string" in given else []
    versions = [("version", given["version"])] if "version" in given else []
    errors.extend(
        field.invalid(f"{path}.{name}", [], "must not be empty if specified")
        for name in ("bools", "ints", "strings", "versions")
        if name in given and not given[name]
    )
    texts += [(f"strings[{index}]", text) for index, text in enumerate(given.get("strings", ()))]
    versions += [(f"versions[{index}]", text) for index, text in enumerate(given.get("versions", ()))]
    for name, text in versions:
        if not _SEMANTIC_VERSION.fullmatch(text):
            detail = "must be a string compatible with semver.org spec 2.0.0"
            errors.append(field.invalid(f"{path}.{name}", text, detail))
    errors.extend(
        field.too_long(f"{path}.{name}", _MAX_VALUE)
        for name, text in (*texts, *versions)
        if len(text.encode()) > _MAX_VALUE
    )
    if len(given) != 1:
        errors.append(field.invalid(path, given or "", "exactly one value must be specified"))
    return errors


def _validate_taint(path: str, taint: JsonObject) -> list[FieldError]:
    key, value, effect = (str(taint.get(name, "")) for name in ("key", "value", "effect"))
    errors = field.invalid_for(f"{path}.key", key, check_qualified_name(key))
    if value:
        errors.extend(field.invalid_for(f"{path}.value", value, check_label_value(value)))
    if not effect:
        return [*errors, field.required(f"{path}.effect")]
    return [*errors, *field.one_of(f"{path}.effect", effect, _TAINT_EFFECTS)]


def _validate_counters(path: str, counters: Mapping[str, JsonObject]) -> list[FieldError]:
    if not counters:
        return [field.required(path)]
    if len(counters) > _MAX_COUNTERS:
        return [field.too_many(path, len(counters), _MAX_COUNTERS)]
    names = ((f"{path}[{shorten_key(name, _MAX_LABEL)}]", name) for name in counters)
    return [error for item, name in names for error in validate_label_name(item, name)]


def _validate_counter_set(path: str, one: JsonObject) -> list[FieldError]:
    name = name_of(one)
    errors = validate_label_name(f"{path}.name", name) if name else [field.required(f"{path}.name")]
    return [*errors, *_validate_counters(f"{path}.counters", one.get("counters", {}))]


def _validate_consumption(path: str, one: JsonObject) -> list[FieldError]:
    name, item = one.get("counterSet", ""), f"{path}.counterSet"
    errors = validate_label_name(item, name) if name else [field.required(item)]
    return [*errors, *_validate_counters(f"{path}.counters", one.get("counters", {}))]


RESOURCE = Resource(
    group="resource.k8s.io",
    version="v1",
    kind="ResourceSlice",
    plural="resourceslices",
    singular="resourceslice",
    namespaced=False,
    strategy=ResourceSliceStrategy(),
    columns=(
        NAME,
        text_column("Node", "spec", "nodeName", empty="<unset>"),
        text_column("Driver", "spec", "driver"),
        text_column("Pool", "spec", "pool", "name"),
        AGE,
    ),
    selectable={"spec.nodeName": selectable("spec", "nodeName"), "spec.driver": selectable("spec", "driver")},
    has_generation=True,
    check_name=check_dns1123_subdomain,
)
