"""Causes for which a Service has no pods: its selector, or no selector and no Endpoints.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from bridgehead.insight.findings import Finding

from .near_names import is_near
from .subjects import Facts, ServiceView, Workload, kubectl, names_of

Labels = Mapping[str, str]


class _Near(NamedTuple):
    """Labels that nearly match a selector. `corrected`: the selector that matches. `what`: who has the labels."""

    differing: str  # keys of the selector
    corrected: dict[str, str]
    what: str
    score: int


def check_selector(view: ServiceView, facts: Facts) -> Iterator[Finding]:
    """Yield why no pod is selected."""
    if view.is_external_name or not view.spec.selector or not view.sees_pods or view.pods:
        return
    selector = view.spec.selector
    namespace = view.key.namespace
    shown = _shown(selector)
    evidence = [f"selector of the Service: {shown}"]
    workloads = facts.selectable_workloads.get(namespace, ())
    matching = [workload for workload in workloads if selector.items() <= workload.labels.items()]
    if matching:
        yield from _without_pods(view, facts, matching[0], evidence)
        return
    if near := _nearest(view):
        yield view.finding(
            "SelectorMisspelled",
            f"The selector {shown} matches no pod, but nearly the labels of {near.what}: they differ in "
            f"{near.differing}.",
            fix=_selector_patch(view, near.corrected),
            evidence=[*evidence, f"labels of {near.what}: {_shown(near.corrected)}"],
        )
        return
    for workload in workloads:
        if selector.items() <= workload.own_labels.items():
            yield view.finding(
                "LabelsNotOnTemplate",
                f"The labels {shown} are on {workload} itself, but not on its pod template, so its pods lack them.",
                fix=_selector_patch(view, dict(workload.labels), selector),
                evidence=[*evidence, f"labels of its pods: {_shown(workload.labels)}"],
            )
            return
    elsewhere = {
        pod.metadata.namespace
        for pod in facts.cluster.pods.values()
        if pod.metadata.namespace != namespace and selector.items() <= pod.metadata.labels.items()
    }
    if elsewhere:
        other = min(elsewhere)
        yield view.finding(
            "PodsInOtherNamespace",
            f"The selector {shown} matches no pod in namespace {namespace}, but some in {names_of(sorted(elsewhere))}.",
            fix=f"create the Service in namespace {other}: a selector matches pods of its own namespace only",
            evidence=evidence,
        )
        return
    yield view.finding(
        "SelectorMatchesNothing",
        f"The selector {shown} matches no pod in namespace {namespace}.",
        fix=kubectl(namespace, "get", "pods", "--show-labels"),
        evidence=[*evidence, f"pods in the namespace: {len(facts.cluster.pods_in(namespace))}"],
    )


def _without_pods(view: ServiceView, facts: Facts, workload: Workload, evidence: list[str]) -> Iterator[Finding]:
    if workload.replicas == 0:
        yield view.finding(
            "ScaledToZero",
            f"{workload} makes the pods of the Service and is scaled to 0.",
            fix=view.kubectl("scale", str(workload), "--replicas=1"),
            evidence=evidence,
        )
        return
    failed = [
        event
        for event in facts.cluster.events
        if event.reason == "FailedCreate"
        and event.involved_object.namespace == view.key.namespace
        and event.involved_object.name.startswith(workload.key.name)
    ]
    why = f": {failed[-1].message}" if failed else "."
    yield view.finding(
        "WorkloadWithoutPods",
        f"{workload} makes the pods of the Service, but has none{why}",
        fix=view.kubectl("describe", str(workload)),
        evidence=[*evidence, *(f"{event.reason}: {event.message}" for event in failed[-3:])],
    )


def check_without_selector(view: ServiceView, facts: Facts) -> Iterator[Finding]:
    """Yield a finding for a Service without a selector that nobody gave endpoints."""
    if view.is_external_name or view.spec.selector or not view.sees_slices or view.is_placeholder:
        return
    if view.endpoints or not facts.cluster.has_seen("endpoints") or view.key in facts.cluster.endpoints:
        return
    workloads = facts.selectable_workloads.get(view.key.namespace, ())
    same = next((each for each in workloads if each.key.name == view.key.name and each.labels), None)
    yield view.finding(
        "NoSelectorNoEndpoints",
        "The Service has no selector, and there are no Endpoints or EndpointSlices with its name.",
        fix=_selector_patch(view, dict(same.labels))
        if same is not None
        else view.kubectl("edit", "service", view.key.name),
        evidence=["spec.selector: none", "EndpointSlices with endpoints: none"],
    )


def _nearest(view: ServiceView) -> _Near | None:
    """Return the labels of the namespace's pods and pod templates that differ least from the selector."""
    selector = view.spec.selector
    candidates = view.facts.label_sets_in(view.key.namespace)
    found = [near for labels, what in candidates if (near := _compare(selector, labels, what))]
    return max(found, key=lambda near: (near.score, near.what), default=None)


def _compare(selector: Labels, labels: Labels, what: str) -> _Near | None:
    """Return how labels differ from the selector, if they nearly match it: every difference is a typing error.

    One value may be any other one, if two or more labels match.
    """
    corrected: dict[str, str] = {}
    differing: list[str] = []
    score = 0
    for key, value in selector.items():
        if labels.get(key) == value:
            corrected[key] = value
            score += 4
            continue
        if key in labels:
            near = is_near(value, labels[key])
            corrected[key] = labels[key]
            differing.append(f"{key} ({labels[key]}, not {value})")
            score += 2 if near else -100
            continue
        other = next((k for k, v in labels.items() if k not in selector and _is_near_key(k, key) and v == value), None)
        if other is None:
            return None
        corrected[other] = value
        differing.append(f"the key {key} (it is {other})")
        score += 2
    matching = len(selector) - len(differing)
    if score < -50 and not (len(differing) == 1 and matching >= 2):
        return None
    return _Near(", ".join(differing), corrected, what, score) if differing else None


def _is_near_key(one: str, other: str) -> bool:
    """Whether keys differ by a typing error, or by their prefix: app.kubernetes.io/name and name."""
    return is_near(one, other) or one.rpartition("/")[2] == other.rpartition("/")[2] or {one, other} in _SAME_MEANING


_SAME_MEANING = (
    {"app", "app.kubernetes.io/name"},
    {"app", "k8s-app"},
    {"app", "run"},
    {"app", "name"},
    {"run", "app.kubernetes.io/name"},
    {"component", "app.kubernetes.io/component"},
)


def _selector_patch(view: ServiceView, wanted: dict[str, str], replaced: Labels | None = None) -> str:
    old = view.spec.selector if replaced is None else replaced
    removed = {key: None for key in old if key not in wanted}
    changed = {key: value for key, value in wanted.items() if view.spec.selector.get(key) != value}
    return view.patch(json.dumps({"spec": {"selector": {**removed, **changed}}}, separators=(",", ":")))


def _shown(labels: Labels) -> str:
    return names_of((f"{key}={value}" for key, value in sorted(labels.items())), 8) or "none"
