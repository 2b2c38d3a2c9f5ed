"""Causes in the nodes' service proxies: not running, silent, behind, in another mode, or refusing a Service.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from bridgehead.insight.facts.system_object_names import SYSTEM, is_proxy_pod
from bridgehead.insight.findings import Finding, Severity
from bridgehead.insight.proxies import ProxyState, states_of_progress
from bridgehead.objects.core import Node, Pod
from bridgehead.objects.meta import version_number
from bridgehead.objects.progress import LEASE_SECONDS, Progress

from .subjects import Facts, ServiceView, kubectl, make_finding, names_of

_MISSING_PROGRAM = (
    "install the package",
    "executable file not found",
    "no such file or directory",
    "command not found",
)


def check_proxies(facts: Facts) -> Iterator[Finding]:
    """Yield the problems of each ready node's proxy, if the cluster's Services are programmed by kube-proxy."""
    cluster = facts.cluster
    if not facts.has_seen_all("pods", "nodes", "leases", namespace=SYSTEM):
        return
    pods = proxy_pods(facts)
    if not pods and not cluster.progress:
        return  # another program has taken the place of kube-proxy
    names = sorted(node.metadata.name for node in facts.ready_nodes if _needs_proxy(node))
    states = states_of_progress(names, cluster.pods.values(), cluster.progress.values())
    for name in names:
        subject, progress = f"node/{name}", cluster.progress.get(name)
        pod = pods.get(name)
        is_silent = progress is not None and _is_silent(progress, facts)
        logs = kubectl(SYSTEM, "logs", pod.metadata.name if pod is not None else "daemonset/kube-proxy")
        if (pod is None or not pod.is_ready) and (progress is None or is_silent or pod is not None):
            yield from _not_running(subject, name, states[name], pod, facts)
            continue
        if is_silent and progress is not None:
            yield make_finding(
                "ProxySilent",
                subject,
                f"The service proxy of node {name} has published nothing for {_silence(progress, facts):.0f} s: "
                "changes do not reach its kernel.",
                fix=kubectl(SYSTEM, "delete", "pod", pod.metadata.name) if pod is not None else logs,
                evidence=[
                    f"last programmed: Services {progress.programmed.services}, EndpointSlices "
                    f"{progress.programmed.slices}"
                ],
            )
            continue
        mode = progress.mode if progress is not None else None
        if mode is not None and mode.wanted != mode.name:
            missing = "ProxyWithoutProgram" if _lacks_program(mode.problem) else "ProxyInOtherMode"
            yield make_finding(
                missing,
                subject,
                f"The service proxy of node {name} is in mode {mode.name}, not {mode.wanted}: {mode.problem}",
                fix=kubectl(SYSTEM, "edit", "configmap", "kube-proxy"),
                evidence=["Services work in the other mode meanwhile"],
                severity=Severity.DEGRADED,
            )
        elif mode is not None and mode.problem:
            yield make_finding(
                "ProxyWarns",
                subject,
                f"The service proxy of node {name} warns: {mode.problem}",
                fix=logs,
                severity=Severity.NOTICE,
            )


def _not_running(subject: str, name: str, state: ProxyState, pod: Pod | None, facts: Facts) -> Iterator[Finding]:
    if pod is not None and facts.age_of(pod.metadata.creation_timestamp) < 10 and not pod.status.container_statuses:
        return  # it has just been made
    why = state.problem.removeprefix("does not run: ") or "its pod is not ready"
    cause = "ProxyWithoutProgram" if _lacks_program(why) else "ProxyNotRunning"
    fix = kubectl(SYSTEM, "rollout", "restart", "daemonset/kube-proxy")
    if pod is not None:
        fix = kubectl(SYSTEM, "logs", pod.metadata.name, "--previous" if _restarts(pod) else "--tail=20")
    yield make_finding(
        cause,
        subject,
        f"The service proxy of node {name} does not run: {why}. Changes of Services do not reach its kernel.",
        fix=fix,
        evidence=[f"pod: {pod.metadata.name if pod is not None else 'none on the node'}"],
    )


def check_programming(view: ServiceView, facts: Facts) -> Iterator[Finding]:
    """Yield the nodes whose kernel refuses the Service, or has an earlier state of it."""
    if not view.service.is_proxied or not facts.has_seen_all("leases", "nodes"):
        return
    ready = {node.metadata.name for node in facts.ready_nodes}
    live = {
        name: each for name, each in facts.cluster.progress.items() if name in ready and not _is_silent(each, facts)
    }
    refusing = sorted(name for name, progress in live.items() if str(view.key) in progress.refused)
    if refusing:
        yield view.finding(
            "ProxyRefusesService",
            f"The kernel of {names_of(refusing)} refuses the Service's rules; an earlier version is in force, or none.",
            fix=kubectl(SYSTEM, "logs", "daemonset/kube-proxy"),
            evidence=[f"{event.reason}: {event.message}" for event in facts.events_of("Service", view.key)[:3]],
            severity=Severity.BROKEN if len(refusing) == len(live) else Severity.DEGRADED,
        )
    service = version_number(view.service.metadata.resource_version)
    slices = max((version_number(each.metadata.resource_version) for each in view.slices), default=0)
    behind = sorted(
        name
        for name, progress in live.items()
        if name not in refusing and (progress.programmed.services < service or progress.programmed.slices < slices)
    )
    if behind and view.sees_slices:
        have = live[behind[0]].programmed
        yield view.finding(
            "ProxyBehind",
            f"The service proxy of {names_of(behind)} has not programmed the Service's present state.",
            fix=shlex.join(("bridgehead", "wait", f"service/{view.key.name}", "-n", view.key.namespace)),
            evidence=[
                f"Service at version {service}, its EndpointSlices at {slices}",
                f"{behind[0]}: Services at {have.services}, EndpointSlices at {have.slices}",
            ],
            severity=Severity.DEGRADED,
        )


def _needs_proxy(node: Node) -> bool:
    """Whether kube-proxy's DaemonSet has a pod on the node: not for Windows, nor for nodes that are no machines."""
    labels = node.metadata.labels
    return (
        labels.get("kubernetes.io/os", "linux") == "linux"
        and labels.get("type") != "virtual-kubelet"
        and "eks.amazonaws.com/compute-type" not in labels
    )


def proxy_pods(facts: Facts) -> Mapping[str, Pod]:
    """Return the pods of the proxy by node; the successor of a terminating pod counts."""
    pods = [pod for pod in facts.cluster.pods_in(SYSTEM) if is_proxy_pod(pod) and pod.spec.node_name]
    return {pod.spec.node_name: pod for pod in sorted(pods, key=lambda pod: not pod.is_terminating)}


def _is_silent(progress: Progress, facts: Facts) -> bool:
    return _silence(progress, facts) > LEASE_SECONDS


def _silence(progress: Progress, facts: Facts) -> float:
    """Return the seconds since the last publication, by the cluster's clocks: this machine's may differ."""
    newest = max(each.renewed for each in facts.cluster.progress.values())
    now = newest if newest != progress.renewed else facts.cluster.now
    return max(0.0, now - progress.renewed)


def _restarts(pod: Pod) -> bool:
    return any(status.restart_count for status in pod.status.container_statuses)


def _lacks_program(text: str) -> bool:
    lower = text.lower()
    return any(each in lower for each in _MISSING_PROGRAM)
