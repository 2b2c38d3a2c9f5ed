"""Defaults for the IP families of a Service: `ipFamilyPolicy` and `ipFamilies`.

Called by `services.ServiceStrategy`, before addresses are chosen, and for Services of older servers.
Pure: no I/O, no clock, no randomness. Source: KEP-563 and Kubernetes `initIPFamilyFields`.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared.address_rules import IPV4, IPV6, family_of

from .service_types import HEADLESS, needs_cluster_ip


def set_families(spec: Field, old: JsonObject | None, families: Sequence[str]) -> None:
    """Set policy and families of `spec` for a cluster with `families`, the primary one first, or add errors.

    The caller must have checked `spec` with `validate_cluster_ips`, which found no error.
    """
    wanted = spec.value
    if wanted.get("type") == "ExternalName" or _is_settled(wanted, old):
        return
    is_open = wanted.get("clusterIP") == HEADLESS and not wanted.get("selector")
    wanted.setdefault("ipFamilyPolicy", _default_policy(old, is_open))
    if old is not None:
        _release_second(spec, old)
    _check_single_stack(spec)
    _infer_from_cluster_ips(spec, families)
    if spec.errors:
        return
    # Without a selector the client provides the endpoints, also of families that the cluster does not have.
    if not is_open:
        _check_configured(spec, families)
    if spec.errors:
        return
    chosen = wanted.setdefault("ipFamilies", [families[0]])
    if wanted["ipFamilyPolicy"] != "SingleStack" and len(chosen) == 1 and (is_open or len(families) == 2):
        chosen.append(_other(chosen[0]))


def complete_families(spec: JsonObject, primary: str) -> None:
    """Set the families of a stored Service without any: those of its addresses, or of a headless one the `primary`.

    Source: Kubernetes `defaultOnReadIPFamilies`.
    """
    if not needs_cluster_ip(spec) or spec.get("ipFamilies"):
        return
    if spec.get("clusterIP") == HEADLESS:
        families = [primary] if spec.get("selector") else [primary, _other(primary)]
    else:
        families = [IPV6 if ":" in address else IPV4 for address in spec.get("clusterIPs") or ()]
    if families:
        spec["ipFamilies"] = families
        spec["ipFamilyPolicy"] = "SingleStack" if len(families) == 1 else "RequireDualStack"


def _is_settled(spec: JsonObject, old: JsonObject | None) -> bool:
    """Whether a PreferDualStack Service keeps its families although the cluster gained or lost one."""
    if old is None or spec.get("ipFamilyPolicy") != "PreferDualStack" or spec.get("type") != old.get("type"):
        return False
    same = all(spec.get(name) == old.get(name) for name in ("clusterIPs", "ipFamilies"))
    return same and old.get("ipFamilyPolicy", "PreferDualStack") == "PreferDualStack"


def _default_policy(old: JsonObject | None, is_open: bool) -> str:
    # A Service changes between one and two families only when a client asks for it.
    if old is not None and "ipFamilyPolicy" in old:
        return str(old["ipFamilyPolicy"])
    return "RequireDualStack" if is_open else "SingleStack"


def _release_second(spec: Field, old: JsonObject) -> None:
    """Drop the second address in an update to SingleStack. Other updates must drop it explicitly."""
    policy = spec.at("ipFamilyPolicy")
    for name, what in (("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")):
        now, before = spec.get(name, []), old.get(name, [])
        if policy.value == "SingleStack":
            if now == before and len(now) > 1:
                spec.value[name] = now[:1]
        elif now and len(now) < len(before):
            policy.invalid(f"must be 'SingleStack' to release the secondary {what}")


def _check_single_stack(spec: Field) -> None:
    policy = spec.at("ipFamilyPolicy")
    if policy.value != "SingleStack":
        return
    for name, what in (("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")):
        if len(spec.get(name, ())) == 2:
            policy.invalid(f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified")


def _infer_from_cluster_ips(spec: Field, families: Sequence[str]) -> None:
    known = len(spec.get("ipFamilies", ()))
    addresses = spec.at("clusterIPs")
    for address in list(addresses.each())[known:]:
        if address.value == HEADLESS:
            break
        family = family_of(address.value)
        if family in families:
            spec.value.setdefault("ipFamilies", []).append(family)
        else:
            address.showing(addresses.value).invalid(f"{family} is not configured on this cluster")


def _check_configured(spec: Field, families: Sequence[str]) -> None:
    policy = spec.at("ipFamilyPolicy")
    if policy.value == "RequireDualStack" and len(families) < 2:
        policy.invalid("this cluster is not configured for dual-stack services")
    for family in spec.at("ipFamilies").each():
        if family.value not in families:
            family.invalid("not configured on this cluster")


def _other(family: str) -> str:
    return IPV6 if family == IPV4 else IPV4
