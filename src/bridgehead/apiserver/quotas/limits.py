"""The effects of a LimitRange: default requests and limits of containers, and bounds.

Pure: no I/O, no clock, no randomness. Source: Kubernetes plugin/pkg/admission/limitranger/admission.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.pods import Amount, Amounts, parse_amounts, pod_amounts
from bridgehead.objects.quantities import format_quantity

ANNOTATION = "kubernetes.io/limit-ranger"


def set_defaults(limit_range: JsonObject, pod: JsonObject) -> None:
    """Set what the containers of a pod leave open; an annotation names what was set."""
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    for item in limit_range.get("spec", {}).get("limits") or ():
        if item.get("type") == "Container":
            requests.update(item.get("defaultRequest", {}))
            limits.update(item.get("default", {}))
    texts = []
    spec = pod.get("spec", {})
    for title, containers in (("container", "containers"), ("init container", "initContainers")):
        for container in spec.get(containers, ()):
            resources = container.setdefault("resources", {})
            for kind, singular, defaults in (("requests", "request", requests), ("limits", "limit", limits)):
                missing = sorted(defaults.keys() - resources.get(kind, {}).keys())
                if missing:
                    resources[kind] = resources.get(kind, {}) | {name: defaults[name] for name in missing}
                    texts.append(f"{', '.join(missing)} {singular} for {title} {container.get('name', '')}")
    if texts:
        annotations = pod.setdefault("metadata", {}).setdefault("annotations", {})
        annotations[ANNOTATION] = f"LimitRanger plugin set: {'; '.join(texts)}"


def violations(limit_range: JsonObject, resource: str, obj: JsonObject) -> list[str]:
    """Return why a pod or a PersistentVolumeClaim is outside the bounds. `resource` is the id of its resource."""
    texts: list[str] = []
    spec = obj.get("spec", {})
    for item in limit_range.get("spec", {}).get("limits") or ():
        kind = item.get("type", "")
        if resource == "persistentvolumeclaims":
            if kind == "PersistentVolumeClaim":
                requests = parse_amounts(spec.get("resources", {}).get("requests", {}))
                texts += _below(item, requests, {}, kind)
                texts += _requests_above(item, requests, kind)
        elif kind == "Container":
            for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
                resources = container.get("resources", {})
                amounts = [parse_amounts(resources.get(kind, {})) for kind in ("requests", "limits")]
                texts += _all_bounds(item, amounts[0], amounts[1], kind)
        elif kind == "Pod":
            texts += _all_bounds(item, pod_amounts(spec, "requests"), pod_amounts(spec, "limits"), kind)
    return texts


def _all_bounds(item: JsonObject, requests: Amounts, limits: Amounts, type: str) -> Iterator[str]:
    yield from _below(item, requests, limits, type)
    yield from _above(item, requests, limits, type)
    yield from _ratios(item, requests, limits, type)


def _below(item: JsonObject, requests: Amounts, limits: Amounts, type: str) -> Iterator[str]:
    for name, bound, what in _bounds(item, "min", "minimum", type):
        if name not in requests:
            yield f"{what}.  No request is specified"
        elif requests[name].value < bound.value:
            yield f"{what}, but request is {_text(requests[name])}"
        elif name in limits and limits[name].value < bound.value:
            yield f"{what}, but limit is {_text(limits[name])}"


def _above(item: JsonObject, requests: Amounts, limits: Amounts, type: str) -> Iterator[str]:
    for name, bound, what in _bounds(item, "max", "maximum", type):
        if name not in limits:
            yield f"{what}.  No limit is specified"
        elif limits[name].value > bound.value:
            yield f"{what}, but limit is {_text(limits[name])}"
        elif name in requests and requests[name].value > bound.value:
            yield f"{what}, but request is {_text(requests[name])}"


def _requests_above(item: JsonObject, requests: Amounts, type: str) -> Iterator[str]:
    for name, bound, what in _bounds(item, "max", "maximum", type):
        if name not in requests:
            yield f"{what}.  No request is specified"
        elif requests[name].value > bound.value:
            yield f"{what}, but request is {_text(requests[name])}"


def _ratios(item: JsonObject, requests: Amounts, limits: Amounts, type: str) -> Iterator[str]:
    for name, bound in parse_amounts(item.get("maxLimitRequestRatio", {})).items():
        what = f"{name} max limit to request ratio per {type} is {_text(bound)}"
        if not _value(requests, name):
            yield f"{what}, but no request is specified or request is 0"
        elif not _value(limits, name):
            yield f"{what}, but no limit is specified or limit is 0"
        elif limits[name].value / requests[name].value > bound.value:
            yield f"{what}, but provided ratio is {float(limits[name].value / requests[name].value):f}"


def _bounds(item: JsonObject, field: str, title: str, type: str) -> Iterator[tuple[str, Amount, str]]:
    for name, bound in parse_amounts(item.get(field, {})).items():
        yield name, bound, f"{title} {name} usage per {type} is {_text(bound)}"


def _value(amounts: Mapping[str, Amount], name: str) -> object:
    return amounts[name].value if name in amounts else None


def _text(amount: Amount) -> str:
    return format_quantity(amount.value, is_binary=amount.is_binary)
