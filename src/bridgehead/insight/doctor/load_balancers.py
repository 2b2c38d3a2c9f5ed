"""Causes for which a Service of type LoadBalancer has no address, or for which no node announces the one that it has.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterator

from bridgehead.insight.findings import Finding, Severity
from bridgehead.objects.address_holders import assigned_addresses
from bridgehead.objects.meta import find_condition

from .addresses import unassigned
from .subjects import Facts, ServiceView, kubectl, mapping, names_of

_GRACE_SECONDS = 10.0  # a load balancer needs a moment
# The condition of a Service that waits, and the causes by its reason: `balancer.allocation.PendingReason`, whose import
# would load the allocator.
CONDITION = "bridgehead.io/LoadBalancerAddress"
CAUSES_BY_REASON = {
    "NoPool": "LoadBalancerNoPool",
    "PoolFull": "LoadBalancerPoolFull",
    "NotAllowed": "LoadBalancerPoolNotAllowed",
    "UnknownPool": "LoadBalancerPoolUnknown",
    "OutsidePools": "LoadBalancerAddressOutsidePools",
    "AddressInUse": "LoadBalancerAddressInUse",
    "PortInUse": "LoadBalancerAddressInUse",
    "InvalidRequest": "LoadBalancerRequestInvalid",
    "InvalidConfiguration": "LoadBalancerConfigurationInvalid",
    "WrongClass": "LoadBalancerWrongClass",
}
# Texts of MetalLB's Events.
_MESSAGES = (
    ("unknown pool", "LoadBalancerPoolUnknown"),
    ("is not allowed in config", "LoadBalancerAddressOutsidePools"),
    ("not compatible", "LoadBalancerPoolNotAllowed"),
    ("can't change sharing key", "LoadBalancerAddressInUse"),
    ("already in use", "LoadBalancerAddressInUse"),
    ("no available IPs", "LoadBalancerPoolFull"),
)
_BALANCERS = (
    "metallb",
    "openelb",
    "bridgehead-balancer",
    "kube-vip",
    "svclb",
    "cloud-controller",
    "purelb",
    "cilium",
    "loxilb",
)
_EVENTS = ("AllocationFailed", "SyncLoadBalancerFailed", "LoadBalancerFailed", "loadBalancerFailed")

_FIXES = {
    "LoadBalancerNoPool": "create an IPAddressPool: kubectl get ipaddresspools -A",
    "LoadBalancerPoolFull": "add a range to the pool: kubectl edit ipaddresspools -A",
    "LoadBalancerPoolNotAllowed": "kubectl get ipaddresspools -A -o yaml",
    "LoadBalancerConfigurationInvalid": "kubectl get events -A --field-selector type=Warning",
}


def check_load_balancer(view: ServiceView, facts: Facts) -> Iterator[Finding]:
    """Yield why the Service waits for its address, or is not announced."""
    if view.spec.type != "LoadBalancer":
        return
    condition = find_condition(view.service.status.conditions, CONDITION)
    if not unassigned(view):
        if condition is not None and condition.status == "False":
            yield from _unannounced(view, condition.reason, condition.message)
        yield from _other_address(view)
        return
    if facts.age_of(view.service.metadata.creation_timestamp) < _GRACE_SECONDS and condition is None:
        return
    if condition is not None and condition.status == "False":
        cause = CAUSES_BY_REASON.get(condition.reason, "LoadBalancerPending")
        yield _pending(view, cause, condition.message)
        return
    events = facts.events_of("Service", view.key, *_EVENTS, uid=view.service.metadata.uid)
    if events:
        message = events[0].message
        cause = next((cause for text, cause in _MESSAGES if text in message), "LoadBalancerPending")
        if (
            cause == "LoadBalancerPoolFull"
            and facts.cluster.has_seen("ipaddresspools")
            and not facts.cluster.address_pools
        ):
            cause = "LoadBalancerNoPool"
        yield _pending(view, cause, message)
        return
    if facts.is_whole and facts.cluster.has_seen("pods"):
        balancers = [
            str(pod.key)
            for pod in facts.cluster.pods.values()
            if any(name in pod.metadata.name or name in pod.metadata.namespace for name in _BALANCERS)
        ]
        if not balancers:
            yield view.finding(
                "NoLoadBalancer",
                "The Service waits for an address, and no load balancer runs in the cluster.",
                fix="install a load balancer (`bridgehead balancer`, MetalLB), or use the node port: "
                + view.kubectl("get", "service", view.key.name),
                evidence=["status.loadBalancer: empty", "pods of a known load balancer: none"],
            )
            return
        class_ = view.spec.load_balancer_class
        if class_:
            yield _pending(view, "LoadBalancerWrongClass", f'no load balancer answered for the class "{class_}"')
            return
    yield _pending(view, "LoadBalancerPending", "its load balancer gives no reason")


def _pending(view: ServiceView, cause: str, message: str) -> Finding:
    service = view.service
    fix = _FIXES.get(cause, "")
    match cause:
        case "LoadBalancerWrongClass":
            delete = view.kubectl("delete", "service", view.key.name)
            fix = f"create the Service anew with the class of the load balancer that runs, after {delete}"
        case "LoadBalancerAddressOutsidePools" if view.spec.load_balancer_ip:
            fix = view.patch('{"spec":{"loadBalancerIP":null}}')
        case _ if not fix:
            fix = view.kubectl("describe", "service", view.key.name)
    annotations = {
        key: text for key, text in service.metadata.annotations.items() if "metallb" in key or "openelb" in key
    }
    return view.finding(
        cause,
        f"The Service waits for its load-balancer address: {message}",
        fix=fix,
        evidence=[
            *([f"loadBalancerIP: {view.spec.load_balancer_ip}"] if view.spec.load_balancer_ip else []),
            *([f"loadBalancerClass: {view.spec.load_balancer_class}"] if view.spec.load_balancer_class else []),
            *(f"{key}: {text}" for key, text in sorted(annotations.items())[:3]),
            f"pools: {_pools(view.facts)}",
        ],
    )


def _unannounced(view: ServiceView, reason: str, message: str) -> Iterator[Finding]:
    yield view.finding(
        "LoadBalancerNotAnnounced",
        f"Clients do not reach {names_of(assigned_addresses(view.service))}: {message}",
        fix=kubectl("", "get", "l2advertisements,bgpadvertisements", "-A"),
        evidence=[f"condition {CONDITION}: {reason}"],
    )


def _other_address(view: ServiceView) -> Iterator[Finding]:
    wanted, found = view.spec.load_balancer_ip, assigned_addresses(view.service)
    if wanted and found and wanted not in found:
        yield view.finding(
            "LoadBalancerOtherAddress",
            f"The Service asks for the address {wanted} and has {names_of(found)}.",
            fix=view.kubectl("describe", "service", view.key.name),
            severity=Severity.DEGRADED,
        )


def _pools(facts: Facts) -> str:
    names = (mapping(pool.get("metadata")).get("name") for pool in facts.cluster.address_pools)
    return names_of(name for name in names if isinstance(name, str)) or "none"
