"""ResourceSlice (resource.k8s.io/v1): its entry in the table and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateResourceSlice`, `ValidateResourceSliceUpdate`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject, Resource, Strategy
from bridgehead.apiserver.resources.pods import validate_node_selector
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, at, selectable, text_column
from bridgehead.objects.names import (
    check_dns1123_label,
    check_dns1123_subdomain,
    check_label_value,
    check_qualified_name,
)

from .device_rules import (
    name_of,
    validate_binding_conditions,
    validate_items,
    validate_pool,
)
from .qualified_names import MAX_QUALIFIED_NAME, shorten_key, validate_driver, validate_qualified
from .request_policies import validate_request_policy

_MAX_DEVICES, _MAX_TAINTED_DEVICES, _MAX_ATTRIBUTES, _MAX_COUNTER_SETS, _MAX_COUNTERS = 128, 64, 32, 8, 32
_MAX_CONSUMPTIONS, _MAX_TAINTS = 2, 16
_MAX_VALUE, _MAX_LABEL = 64, 63
_TAINT_EFFECTS = ("NoExecute", "NoSchedule", "None")
_LISTS = ("bools", "ints", "strings", "versions")
_VALUES = ("bool", "int", "string", "version", *_LISTS)
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

    def validate_create(self, obj: Field) -> None:
        _validate_spec(obj.at("spec"), {})

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        spec, before = obj.at("spec"), old.get("spec", {})
        _validate_spec(spec, before)
        spec.at("pool").at("name").must_not_change(at(before, "pool", "name"))
        for name in ("driver", "nodeName"):
            spec.at(name).must_not_change(before.get(name))


def _attributes(obj: JsonObject) -> Iterator[JsonObject]:
    for device in at(obj, "spec", "devices") or ():
        yield from device.get("attributes", {}).values()


def _drop_lists(obj: JsonObject, old: JsonObject) -> None:
    """Remove lists of values, whose gate DRAListTypeAttributes is off, unless `old` has some."""
    having = [one for one in _attributes(obj) if not one.keys().isdisjoint(_LISTS)]
    if having and all(one.keys().isdisjoint(_LISTS) for one in _attributes(old)):
        for attribute in having:
            for name in attribute.keys() & _LISTS:
                del attribute[name]


def _validate_spec(spec: Field, before: JsonObject) -> None:
    pool = spec.at("pool")
    validate_driver(spec.at("driver", ""))
    validate_pool(pool.at("name"))
    pool.at("resourceSliceCount", 0).must_be_at_least(1, "must be greater than zero")
    pool.at("generation", 0).must_be_at_least(0, "must be greater than or equal to zero")
    _validate_nodes(spec)
    if "sharedCounters" in spec.value and "devices" in spec.value:
        spec.showing("").invalid("only one of `sharedCounters` or `devices` is allowed")
    has_more = any(device.get("taints") or device.get("consumesCounters") for device in spec.get("devices", ()))
    old = {name_of(device): device for device in before.get("devices", ())}

    def validate_device(device: Field) -> None:
        _validate_device(device, old.get(name_of(device.value), {}))
        _validate_device_nodes(device, per_device=spec.get("perDeviceNodeSelection", False))
        validate_binding_conditions(device)

    validate_items(spec.at("devices"), _MAX_TAINTED_DEVICES if has_more else _MAX_DEVICES, validate_device, name_of)
    validate_items(spec.at("sharedCounters"), _MAX_COUNTER_SETS, _validate_counter_set, name_of)


def _validate_nodes(spec: Field) -> None:
    chosen = [f"`{name}`" for name in _NODE_FIELDS if spec.get(name) or (name == "nodeSelector" and name in spec.value)]
    _validate_node_name(spec.at("nodeName"), "must be either unset or set to a non-empty string")
    selector = spec.at("nodeSelector")
    if selector.value is not None:
        validate_node_selector(selector)
        terms = selector.at("nodeSelectorTerms", [])
        if len(terms.value) != 1:
            terms.invalid("must have exactly one node selector term")
    for name in ("allNodes", "perDeviceNodeSelection"):
        _validate_flag(spec.at(name))
    if not chosen:
        spec.required(_ONE_NODE_FIELD)
    elif len(chosen) > 1:
        spec.showing(f"{{{', '.join(chosen)}}}").invalid(f"{_ONE_NODE_FIELD}, but multiple fields are set")


def _validate_node_name(name: Field, when_empty: str) -> None:
    if name.value == "":
        name.invalid(when_empty)
    else:
        name.must_pass(check_dns1123_subdomain)


def _validate_flag(flag: Field) -> None:
    if flag.value is False:
        flag.invalid("must be either unset or set to true")


def _validate_device(device: Field, old: JsonObject) -> None:
    attributes, capacities = device.at("attributes", {}), device.at("capacity", {})
    device.at("name", "").must_pass(check_dns1123_label)
    total = len(attributes.value) + len(capacities.value)
    if total > _MAX_ATTRIBUTES:
        detail = f"the total number of attributes and capacities must not exceed {_MAX_ATTRIBUTES}"
        device.showing(total).invalid(detail)
    for name, attribute in _entries(attributes, MAX_QUALIFIED_NAME):
        validate_qualified(name)
        _validate_attribute(attribute)
    for name, capacity in _entries(capacities, MAX_QUALIFIED_NAME):
        validate_qualified(name)
        policy = capacity.at("requestPolicy")
        if policy.value is not None and device.get("allowMultipleAllocations"):
            validate_request_policy(policy, capacity.get("value", "0"))
        elif policy.value is not None:
            policy.forbidden("allowMultipleAllocations must be true")
    taints = device.at("taints")
    if taints.value != old.get("taints"):
        validate_items(taints, _MAX_TAINTS, _validate_taint)
    consumed = device.at("consumesCounters")
    validate_items(consumed, _MAX_CONSUMPTIONS, _validate_consumption, lambda one: one.get("counterSet", ""))


def _entries(entries: Field, limit: int) -> Iterator[tuple[Field, Field]]:
    """Yield the keys and the values of a map. Keys in paths have at most `limit` characters."""
    for key, value in (entries.value or {}).items():
        entry = Field(value, f"[{shorten_key(key, limit)}]", entries)
        yield entry.showing(key), entry


def _validate_device_nodes(device: Field, *, per_device: bool) -> None:
    given = [name for name in ("nodeName", "nodeSelector", "allNodes") if name in device.value]
    if not per_device:
        if given:
            device.showing(None).invalid(_NO_NODE_FIELD_OF_DEVICE)
        return
    _validate_node_name(device.at("nodeName"), "must not be empty")
    device.at("nodeSelector").must_obey(validate_node_selector)
    _validate_flag(device.at("allNodes"))
    chosen = [f"`{name}`" for name in given if device.get(name) or name == "nodeSelector"]
    if not chosen:
        device.required(_ONE_NODE_FIELD_OF_DEVICE)
    elif len(chosen) > 1:
        device.showing(f"{{{', '.join(chosen)}}}").invalid(_ONE_NODE_FIELD_OF_DEVICE)


def _validate_attribute(attribute: Field) -> None:
    given = {name: attribute.value[name] for name in _VALUES if name in attribute.value}
    for name in _LISTS:
        if given.get(name) == []:
            attribute.at(name).invalid("must not be empty if specified")
    strings = [attribute.at("string"), *attribute.at("strings").each()]
    versions = [attribute.at("version"), *attribute.at("versions").each()]
    for version in versions:
        version.must_pass(_check_version)
    for text in (*strings, *versions):
        text.must_have_at_most_bytes(_MAX_VALUE)
    if len(given) != 1:
        attribute.showing(given or "").invalid("exactly one value must be specified")


def _check_version(text: str) -> Sequence[str]:
    return () if _SEMANTIC_VERSION.fullmatch(text) else ("must be a string compatible with semver.org spec 2.0.0",)


def _validate_taint(taint: Field) -> None:
    taint.at("key", "").must_pass(check_qualified_name)
    taint.at("value").must_pass(check_label_value)
    taint.at("effect").must_be_set_to_one_of(_TAINT_EFFECTS)


def _validate_counter_set(counter_set: Field) -> None:
    counter_set.at("name").must_be_set_and_pass(check_dns1123_label)
    _validate_counters(counter_set.at("counters"))


def _validate_consumption(consumption: Field) -> None:
    consumption.at("counterSet").must_be_set_and_pass(check_dns1123_label)
    _validate_counters(consumption.at("counters"))


def _validate_counters(counters: Field) -> None:
    if counters.must_be_set() and counters.must_have_at_most(_MAX_COUNTERS):
        for name, _ in _entries(counters, _MAX_LABEL):
            name.must_pass(check_dns1123_label)


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
