"""Versions of Kubernetes' kinds that older kube-apiservers store, and their conversion to those that this one stores.

An object is stored in the version that was the storage version when it was written last, so one etcd may have several
versions of a kind. Most differ in their name only. The conversions take and return whole objects without nulls, which
may share parts. Pure: no I/O, no clock, no randomness.
Source: test/integration/etcd/data.go of Kubernetes 1.20 and 1.36 (stored versions), pkg/apis/*/v1beta1/conversion.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.autoscaling.older_autoscalers import from_stored as autoscaler_to_v1
from bridgehead.apiserver.resources.autoscaling.older_autoscalers import to_stored as autoscaler_from_v1
from bridgehead.apiserver.shapes import IntOrStringShape, ListShape, StructShape

from .definitions import V1BETA1, from_v1beta1, to_v1beta1, v1beta1_shape
from .older_shapes import changed_shape, item_shape

_Convert = Callable[[JsonObject], JsonObject]

_API = "io.k8s.api."
_NODE, _ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
_BUDGET_LABEL = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"
_MATCH_NONE = {"matchExpressions": [{"key": _BUDGET_LABEL, "operator": "Exists"}]}
_MATCH_ALL = {"matchExpressions": [{"key": _BUDGET_LABEL, "operator": "DoesNotExist"}]}


def _same(obj: JsonObject) -> JsonObject:
    return obj


def _same_shape(shape: StructShape) -> StructShape:
    return shape


@dataclass(frozen=True, slots=True)
class OlderVersion:
    """A version of a kind. `upgrade` and `downgrade` convert from and to it; the caller sets apiVersion.

    `shape` returns the version's shape, made of that of the present version; None: the schema has it.
    """

    api_version: str
    upgrade: _Convert = _same
    downgrade: _Convert = _same
    shape: Callable[[StructShape], StructShape] | None = _same_shape


# --- EndpointSlice: the node and the zone of an endpoint are in `topology`


def _newer_slice(obj: JsonObject) -> JsonObject:
    return _with_items(obj, "endpoints", _newer_endpoint)


def _newer_endpoint(endpoint: JsonObject) -> JsonObject:
    newer = {name: value for name, value in endpoint.items() if name != "topology"}
    topology = dict(endpoint.get("topology") or {})
    if (zone := topology.pop(_ZONE, None)) is not None:
        newer["zone"] = zone
    # A node that is not that of `nodeName` stays in the topology.
    node = topology.get(_NODE)
    if node is not None and newer.setdefault("nodeName", node) == node:
        del topology[_NODE]
    if topology:
        newer["deprecatedTopology"] = topology
    return newer


def _older_slice(obj: JsonObject) -> JsonObject:
    return _with_items(obj, "endpoints", _older_endpoint)


def _older_endpoint(endpoint: JsonObject) -> JsonObject:
    older = {name: value for name, value in endpoint.items() if name not in ("zone", "deprecatedTopology")}
    topology = dict(endpoint.get("deprecatedTopology") or {})
    if "zone" in endpoint:
        topology[_ZONE] = endpoint["zone"]
    if "nodeName" in endpoint:
        topology.setdefault(_NODE, endpoint["nodeName"])
    return {**older, "topology": topology} if topology else older


def _slice_shape(shape: StructShape) -> StructShape:
    endpoint = item_shape(shape, "endpoints")
    topology = endpoint.fields["deprecatedTopology"]
    older = changed_shape(
        endpoint,
        {"topology": topology},
        drop=("zone", "deprecatedTopology"),
        definition=f"{_API}discovery.v1beta1.Endpoint",
    )
    return changed_shape(shape, {"endpoints": ListShape(older)})


# --- Ingress: other names of the default backend, and of a backend's Service and port


def _newer_ingress(obj: JsonObject) -> JsonObject:
    return _with_backends(obj, _newer_backend, "backend", "defaultBackend")


def _newer_backend(backend: JsonObject) -> JsonObject:
    newer = dict(backend)
    name, port = newer.pop("serviceName", ""), newer.pop("servicePort", 0)
    if name or port:
        newer["service"] = {"name": name, "port": _newer_port(port)}
    return newer


def _newer_port(port: Any) -> JsonObject:
    if not port:
        return {}
    return {"name": port} if isinstance(port, str) else {"number": port}


def _older_ingress(obj: JsonObject) -> JsonObject:
    return _with_backends(obj, _older_backend, "defaultBackend", "backend")


def _older_backend(backend: JsonObject) -> JsonObject:
    older = dict(backend)
    service = older.pop("service", None)
    if service is not None:
        port = service.get("port") or {}
        older |= {"serviceName": service.get("name", ""), "servicePort": port.get("name") or port.get("number", 0)}
    return older


def _with_backends(obj: JsonObject, convert: _Convert, default: str, new_default: str) -> JsonObject:
    """Return an Ingress with converted backends. `default` is the field of its default backend, before and after."""
    if "spec" not in obj:
        return obj
    spec = dict(obj["spec"])
    if default in spec:
        spec[new_default] = convert(spec.pop(default))
    return {**obj, "spec": _with_items(spec, "rules", lambda rule: _with_paths(rule, convert))}


def _with_paths(rule: JsonObject, convert: _Convert) -> JsonObject:
    if rule.get("http") is None:
        return rule
    return {**rule, "http": _with_items(rule["http"], "paths", lambda path: _with_backend(path, convert))}


def _with_backend(path: JsonObject, convert: _Convert) -> JsonObject:
    return {**path, "backend": convert(path["backend"])} if "backend" in path else path


def _ingress_shape(shape: StructShape) -> StructShape:
    spec = shape.fields["spec"]
    rule = item_shape(spec, "rules")
    http = rule.fields["http"]
    path = item_shape(http, "paths")
    backend = path.fields["backend"]
    older_backend = changed_shape(
        backend,
        {
            "serviceName": backend.fields["service"].fields["name"],
            "servicePort": IntOrStringShape("intstr.IntOrString"),
        },
        drop=("service",),
        definition=f"{_API}networking.v1beta1.IngressBackend",
    )
    older_path = changed_shape(path, {"backend": older_backend})
    older_rule = changed_shape(rule, {"http": changed_shape(http, {"paths": ListShape(older_path)})})
    older_spec = changed_shape(
        spec,
        {"backend": older_backend, "rules": ListShape(older_rule)},
        drop=("defaultBackend",),
        definition=f"{_API}networking.v1beta1.IngressSpec",
    )
    return changed_shape(shape, {"spec": older_spec})


# --- PodDisruptionBudget: an empty selector selects no pod


def _newer_budget(obj: JsonObject) -> JsonObject:
    return _with_selector(obj, none=({}, _MATCH_NONE), all=(_MATCH_ALL, {}))


def _older_budget(obj: JsonObject) -> JsonObject:
    return _with_selector(obj, none=(_MATCH_NONE, {}), all=({}, _MATCH_ALL))


def _with_selector(
    obj: JsonObject, *, none: tuple[JsonObject, JsonObject], all: tuple[JsonObject, JsonObject]
) -> JsonObject:
    """Return a budget with a converted selector. `none` and `all`: selectors of no pod and of all, before and after.

    No other selector may have the label of the two.
    """
    selector = (obj.get("spec") or {}).get("selector")
    if selector is None:
        return obj
    if selector == none[0]:
        converted = none[1]
    elif selector == all[0]:
        converted = all[1]
    else:
        converted = _without_budget_label(selector)
    return {**obj, "spec": {**obj["spec"], "selector": converted}}


def _without_budget_label(selector: JsonObject) -> JsonObject:
    expressions = [one for one in selector.get("matchExpressions") or () if one.get("key") != _BUDGET_LABEL]
    rest = {name: value for name, value in selector.items() if name != "matchExpressions"}
    return {**rest, "matchExpressions": expressions} if expressions else rest


# --- PriorityLevelConfiguration: another name of the shares


def _newer_level(obj: JsonObject) -> JsonObject:
    return _with_limited(obj, "assuredConcurrencyShares", "nominalConcurrencyShares")


def _older_level(obj: JsonObject) -> JsonObject:
    return _with_limited(obj, "nominalConcurrencyShares", "assuredConcurrencyShares")


def _with_limited(obj: JsonObject, name: str, new_name: str) -> JsonObject:
    limited = (obj.get("spec") or {}).get("limited")
    if limited is None or name not in limited:
        return obj
    renamed = {(new_name if one == name else one): value for one, value in limited.items()}
    return {**obj, "spec": {**obj["spec"], "limited": renamed}}


def _level_shape(shape: StructShape) -> StructShape:
    spec = shape.fields["spec"]
    limited = spec.fields["limited"]
    older = changed_shape(
        limited,
        {"assuredConcurrencyShares": limited.fields["nominalConcurrencyShares"]},
        drop=("nominalConcurrencyShares",),
        definition=f"{_API}flowcontrol.v1beta1.LimitedPriorityLevelConfiguration",
    )
    return changed_shape(shape, {"spec": changed_shape(spec, {"limited": older})})


# --- CertificateSigningRequest: conditions without a status are true


def _newer_request(obj: JsonObject) -> JsonObject:
    if "conditions" not in (obj.get("status") or {}):
        return obj
    return {**obj, "status": _with_items(obj["status"], "conditions", lambda one: {"status": "True", **one})}


def _with_items(obj: JsonObject, field: str, convert: _Convert) -> JsonObject:
    """Return an object with the items of a list converted."""
    return {**obj, field: [*map(convert, obj[field])]} if field in obj else obj


def _renamed(group: str, *versions: str) -> tuple[OlderVersion, ...]:
    """Return versions that differ in their name only."""
    return tuple(OlderVersion(f"{group}/{version}") for version in versions)


_FLOW, _ADMISSION, _STORAGE = "flowcontrol.apiserver.k8s.io", "admissionregistration.k8s.io", "storage.k8s.io"

# The versions of each resource, by its id, beside the one in which the API serves stored objects.
OLDER_VERSIONS: Mapping[str, tuple[OlderVersion, ...]] = {
    "apiservices.apiregistration.k8s.io": _renamed("apiregistration.k8s.io", "v1beta1"),
    "certificatesigningrequests.certificates.k8s.io": (OlderVersion("certificates.k8s.io/v1beta1", _newer_request),),
    "cronjobs.batch": _renamed("batch", "v1beta1"),
    "csidrivers.storage.k8s.io": _renamed(_STORAGE, "v1beta1"),
    "csinodes.storage.k8s.io": _renamed(_STORAGE, "v1beta1"),
    "csistoragecapacities.storage.k8s.io": _renamed(_STORAGE, "v1beta1", "v1alpha1"),
    "customresourcedefinitions.apiextensions.k8s.io": (OlderVersion(V1BETA1, from_v1beta1, to_v1beta1, v1beta1_shape),),
    "endpointslices.discovery.k8s.io": (
        OlderVersion("discovery.k8s.io/v1beta1", _newer_slice, _older_slice, _slice_shape),
    ),
    "flowschemas.flowcontrol.apiserver.k8s.io": _renamed(_FLOW, "v1beta3", "v1beta2", "v1beta1"),
    "horizontalpodautoscalers.autoscaling": (
        OlderVersion("autoscaling/v1", autoscaler_from_v1, autoscaler_to_v1, None),
    ),
    "ingressclasses.networking.k8s.io": _renamed("networking.k8s.io", "v1beta1"),
    "ingresses.networking.k8s.io": (
        OlderVersion("networking.k8s.io/v1beta1", _newer_ingress, _older_ingress, _ingress_shape),
    ),
    "ipaddresses.networking.k8s.io": _renamed("networking.k8s.io", "v1beta1"),
    "leases.coordination.k8s.io": _renamed("coordination.k8s.io", "v1beta1"),
    "mutatingadmissionpolicies.admissionregistration.k8s.io": _renamed(_ADMISSION, "v1beta1", "v1alpha1"),
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io": _renamed(_ADMISSION, "v1beta1", "v1alpha1"),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": _renamed(_ADMISSION, "v1beta1"),
    "poddisruptionbudgets.policy": (OlderVersion("policy/v1beta1", _newer_budget, _older_budget),),
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": (
        OlderVersion(f"{_FLOW}/v1beta3"),
        OlderVersion(f"{_FLOW}/v1beta2", _newer_level, _older_level, _level_shape),
        OlderVersion(f"{_FLOW}/v1beta1", _newer_level, _older_level, _level_shape),
    ),
    "runtimeclasses.node.k8s.io": _renamed("node.k8s.io", "v1beta1"),
    "servicecidrs.networking.k8s.io": _renamed("networking.k8s.io", "v1beta1"),
    "validatingadmissionpolicies.admissionregistration.k8s.io": _renamed(_ADMISSION, "v1beta1"),
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": _renamed(_ADMISSION, "v1beta1"),
    "validatingwebhookconfigurations.admissionregistration.k8s.io": _renamed(_ADMISSION, "v1beta1"),
    "volumeattributesclasses.storage.k8s.io": _renamed(_STORAGE, "v1beta1"),
}

# The storage versions of Kubernetes 1.36 that are not those in which the API serves stored objects.
STORAGE_VERSIONS: Mapping[str, str] = {
    "customresourcedefinitions.apiextensions.k8s.io": V1BETA1,
    "mutatingadmissionpolicies.admissionregistration.k8s.io": f"{_ADMISSION}/v1beta1",
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io": f"{_ADMISSION}/v1beta1",
}
# Versions that Kubernetes 1.20 knows, of the kinds whose later ones it does not know.
STORAGE_VERSIONS_1_20: Mapping[str, str] = {
    "cronjobs.batch": "batch/v1beta1",
    "csistoragecapacities.storage.k8s.io": f"{_STORAGE}/v1alpha1",
    "customresourcedefinitions.apiextensions.k8s.io": V1BETA1,
    "endpointslices.discovery.k8s.io": "discovery.k8s.io/v1beta1",
    "flowschemas.flowcontrol.apiserver.k8s.io": f"{_FLOW}/v1beta1",
    "horizontalpodautoscalers.autoscaling": "autoscaling/v1",
    "poddisruptionbudgets.policy": "policy/v1beta1",
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": f"{_FLOW}/v1beta1",
}
