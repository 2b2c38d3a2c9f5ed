"""Plan of a DaemonSet's pods: nodes that get a pod, and pods to delete. Called by `daemonset_controller`.

A pod is created with a node affinity for its node's name and bound by the scheduler, so that only the scheduler checks
scheduling rules and resources. Pure: no I/O, no clock, no randomness.
Source: Kubernetes `pkg/controller/daemon` (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from bridgehead.objects.apps import DaemonSet, DaemonSetStatus
from bridgehead.objects.core import Node, Pod, PodSpec, Toleration
from bridgehead.objects.meta import PodTemplate
from bridgehead.objects.node_fit import REQUIRED, matches_node_affinity, required_node_names, untolerated
from bridgehead.objects.taints import (
    DISK_PRESSURE,
    MEMORY_PRESSURE,
    NETWORK_UNAVAILABLE,
    NOT_READY,
    PID_PRESSURE,
    UNREACHABLE,
    UNSCHEDULABLE,
)

from .availability import is_available
from .rollout import scaled_value

HASH_LABEL = "controller-revision-hash"
GENERATION_LABEL = "pod-template-generation"
GENERATION_ANNOTATION = "deprecated.daemonset.template.generation"

# Added to every daemon pod: the daemon is often what repairs the problem of the node (network, disk).
_TOLERATIONS = (
    (NOT_READY, "NoExecute"),
    (UNREACHABLE, "NoExecute"),
    (DISK_PRESSURE, "NoSchedule"),
    (MEMORY_PRESSURE, "NoSchedule"),
    (PID_PRESSURE, "NoSchedule"),
    (UNSCHEDULABLE, "NoSchedule"),
)
_HOST_NETWORK_TOLERATION = (NETWORK_UNAVAILABLE, "NoSchedule")

PodsByNode = Mapping[str, Sequence[Pod]]


@dataclass(frozen=True)
class DaemonPlan:
    """Node names for which to create pods, and pods to delete, which include `failed` and `succeeded`."""

    create_on: tuple[str, ...] = ()
    delete: tuple[Pod, ...] = ()
    failed: tuple[Pod, ...] = field(default=())
    succeeded: tuple[Pod, ...] = field(default=())


# --- Pods of a DaemonSet ---------------------------------------------------------------------------------


def daemon_template(daemon_set: DaemonSet, hash: str) -> PodTemplate:
    """Return the template with the revision label and the tolerations of every daemon, not yet for a node."""
    template = daemon_set.spec.template
    labels = {**template.metadata.labels, HASH_LABEL: hash}
    generation = daemon_set.metadata.annotations.get(GENERATION_ANNOTATION, "")
    if generation.isdigit():
        labels[GENERATION_LABEL] = generation
    wanted = (*_TOLERATIONS, _HOST_NETWORK_TOLERATION) if template.spec.get("hostNetwork") else _TOLERATIONS
    tolerations: list[dict[str, Any]] = list(template.spec.get("tolerations") or ())
    for key, effect in wanted:
        toleration = {"key": key, "operator": "Exists", "effect": effect}
        if toleration not in tolerations:
            tolerations.append(toleration)
    return msgspec.structs.replace(
        template,
        metadata=msgspec.structs.replace(template.metadata, labels=labels),
        spec={**template.spec, "tolerations": tolerations},
    )


def template_for_node(template: PodTemplate, node_name: str) -> PodTemplate:
    """Return `template` with a required affinity for one node only. `Eligibility` has checked the rest of it."""
    only = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node_name]}]}
    affinity = dict(template.spec.get("affinity") or {})
    node_affinity = dict(affinity.get("nodeAffinity") or {})
    node_affinity[REQUIRED] = {"nodeSelectorTerms": [only]}
    affinity["nodeAffinity"] = node_affinity
    return msgspec.structs.replace(template, spec={**template.spec, "affinity": affinity})


def target_node(pod: Pod) -> str:
    """Return the node that a daemon pod is on or will be scheduled to; "" without either."""
    if pod.spec.node_name:
        return pod.spec.node_name
    names = required_node_names(pod.spec) or ()
    return next(iter(names)) if len(names) == 1 else ""


def pods_by_node(pods: Iterable[Pod]) -> dict[str, list[Pod]]:
    """Return the pods by target node, in a node bound ones first, then oldest first.

    Pods without a target node are omitted: adopted ones that wait for any node.
    """
    nodes: dict[str, list[Pod]] = {}
    for pod in sorted(pods, key=_by_age):
        # A finalizer may keep a pod that has ended and is being removed for long; it does not count.
        if (name := target_node(pod)) and not (pod.is_finished and pod.is_terminating):
            nodes.setdefault(name, []).append(pod)
    return nodes


def _by_age(pod: Pod) -> tuple[bool, str, str]:
    return not pod.spec.node_name, pod.metadata.creation_timestamp or "", pod.metadata.name


def is_updated(pod: Pod, hash: str) -> bool:
    return pod.metadata.labels.get(HASH_LABEL) == hash


# --- Nodes -----------------------------------------------------------------------------------------------


class Eligibility:
    """The nodes that a DaemonSet wants. Made once for a template, since decoding a template is expensive."""

    def __init__(self, template: PodTemplate) -> None:
        self._spec = msgspec.convert(template.spec, PodSpec)
        self._tolerations: tuple[Toleration, ...] = self._spec.tolerations

    def of(self, node: Node) -> tuple[bool, bool]:
        """Return whether the node should get a pod, and whether it keeps an existing one (despite NoSchedule)."""
        if self._spec.node_name not in ("", node.metadata.name) or not matches_node_affinity(self._spec, node):
            return False, False
        if not untolerated(node.spec.taints, self._tolerations, ("NoSchedule", "NoExecute")):
            return True, True
        return False, not untolerated(node.spec.taints, self._tolerations, ("NoExecute",))


# --- Plans -----------------------------------------------------------------------------------------------


def limits(daemon_set: DaemonSet, desired: int) -> tuple[int, int]:
    """Return max surge and max unavailable as numbers of nodes, rounded up. The default is one unavailable."""
    rolling = daemon_set.spec.update_strategy.rolling_update
    if daemon_set.spec.update_strategy.type != "RollingUpdate":
        return 0, 0
    surge = scaled_value(rolling.max_surge if rolling else None, desired, round_up=True, default=0)
    unavailable = scaled_value(rolling.max_unavailable if rolling else None, desired, round_up=True, default=1)
    return surge, unavailable if surge or unavailable else 1


def _allows_surge(daemon_set: DaemonSet) -> bool:
    return limits(daemon_set, 1)[0] > 0


def plan_nodes(
    daemon_set: DaemonSet, hash: str, nodes: Iterable[Node], eligibility: Eligibility, placed: PodsByNode, now: float
) -> DaemonPlan:
    """Plan one pod on every node that should have one, and none elsewhere. Ended pods are replaced."""
    create: list[str] = []
    delete: list[Pod] = []
    failed: list[Pod] = []
    succeeded: list[Pod] = []
    known = set()
    for node in nodes:
        name = node.metadata.name
        known.add(name)
        should_run, should_continue = eligibility.of(node)
        present = placed.get(name, ())
        if should_run and not present:
            create.append(name)
        elif not should_continue:
            delete.extend(pod for pod in present if not pod.is_terminating)
        else:
            staying = [pod for pod in present if not pod.is_terminating]
            failed.extend(pod for pod in staying if pod.status.phase == "Failed")
            succeeded.extend(pod for pod in staying if pod.status.phase == "Succeeded")
            delete.extend(pod for pod in staying if pod.is_finished)
            running = [pod for pod in staying if not pod.is_finished]
            delete.extend(_superfluous(daemon_set, hash, running, now))
    # A pod that waits for a deleted node is never scheduled, and no other controller removes it.
    for name, pods in placed.items():
        if name not in known:
            delete.extend(pod for pod in pods if not pod.spec.node_name and not pod.is_terminating)
    return DaemonPlan(tuple(create), tuple(delete), tuple(failed), tuple(succeeded))


def _superfluous(daemon_set: DaemonSet, hash: str, running: Sequence[Pod], now: float) -> list[Pod]:
    """Return the pods beyond the one that a node should have, or beyond an old and a new one while surging."""
    if not _allows_surge(daemon_set):
        return list(running[1:])
    news = [pod for pod in running if is_updated(pod, hash)]
    olds = [pod for pod in running if not is_updated(pod, hash)]
    surplus = [*news[1:], *olds[1:]]
    if news and olds and (not olds[0].is_ready or is_available(news[0], daemon_set.spec.min_ready_seconds, now)):
        surplus.append(olds[0])
    return surplus


def plan_update(
    daemon_set: DaemonSet, hash: str, nodes: Iterable[Node], eligibility: Eligibility, placed: PodsByNode, now: float
) -> DaemonPlan:
    """Plan the next step of a rolling update: old pods to delete or, when surging, nodes that get a second pod."""
    wanted = [node.metadata.name for node in nodes if eligibility.of(node)[0]]
    surge, unavailable = limits(daemon_set, len(wanted))
    seconds = daemon_set.spec.min_ready_seconds
    if surge:
        return _plan_surge(wanted, hash, placed, surge, seconds, now)
    # `plan_nodes` deletes pods on nodes that should not have one; until then these nodes count too.
    names = [*wanted, *sorted(set(placed) - set(wanted))]
    replace: list[Pod] = []
    candidates: list[Pod] = []
    missing = 0
    for name in names:
        pair = _new_and_old(placed.get(name, ()), hash)
        new, old = pair if pair else (None, None)
        if (new is None) == (old is None):
            missing += 1  # no pod or too many: `plan_nodes` corrects this
        elif new is not None:
            missing += not is_available(new, seconds, now)
        elif old is not None and not is_available(old, seconds, now):
            replace.append(old)
            missing += 1
        elif old is not None:
            candidates.append(old)
    room = max(0, unavailable - missing)
    return DaemonPlan(delete=(*replace, *candidates[:room]))


def _plan_surge(
    names: Iterable[str], hash: str, placed: PodsByNode, max_surge: int, seconds: int, now: float
) -> DaemonPlan:
    urgent: list[str] = []
    candidates: list[str] = []
    delete: list[Pod] = []
    surging = 0
    for name in names:
        pair = _new_and_old(placed.get(name, ()), hash)
        if pair is None:
            surging += 1
            continue
        new, old = pair
        if old is None:
            continue
        if new is None:
            (candidates if is_available(old, seconds, now) else urgent).append(name)
        elif not is_available(old, seconds, now) or is_available(new, seconds, now):
            delete.append(old)
        else:
            surging += 1
    room = max(0, max_surge - surging)
    return DaemonPlan(create_on=(*urgent, *candidates[:room]), delete=tuple(delete))


def _new_and_old(pods: Sequence[Pod], hash: str) -> tuple[Pod | None, Pod | None] | None:
    """Return the updated and the old pod of a node; None when there is more than one of either."""
    staying = [pod for pod in pods if not pod.is_terminating]
    news = [pod for pod in staying if is_updated(pod, hash)]
    olds = [pod for pod in staying if not is_updated(pod, hash)]
    if len(news) > 1 or len(olds) > 1:
        return None
    return next(iter(news), None), next(iter(olds), None)


def compute_status(
    daemon_set: DaemonSet,
    hash: str,
    nodes: Iterable[Node],
    eligibility: Eligibility,
    placed: PodsByNode,
    now: float,
    *,
    observed: bool,
) -> DaemonSetStatus:
    """Compute the status. `observed` is False while the current generation has not been acted on."""
    desired = current = misscheduled = ready = updated = available = 0
    for node in nodes:
        pods = placed.get(node.metadata.name, ())
        if not eligibility.of(node)[0]:
            misscheduled += bool(pods)
            continue
        desired += 1
        if not pods:
            continue
        current += 1
        pod = pods[0]
        ready += pod.is_ready
        available += is_available(pod, daemon_set.spec.min_ready_seconds, now)
        updated += is_updated(pod, hash)
    return DaemonSetStatus(
        observed_generation=daemon_set.metadata.generation if observed else daemon_set.status.observed_generation,
        desired_number_scheduled=desired,
        current_number_scheduled=current,
        number_misscheduled=misscheduled,
        number_ready=ready,
        updated_number_scheduled=updated,
        number_available=available,
        number_unavailable=desired - available,
    )
