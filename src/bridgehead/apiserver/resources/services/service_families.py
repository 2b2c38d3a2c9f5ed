"""Defaults for the IP families of a Service: `ipFamilyPolicy` and `ipFamilies`.

Called by `services.ServiceStrategy.allocate`, before addresses are chosen.
Pure: no I/O, no clock, no randomness. Source: KEP-563 and Kubernetes `initIPFamilyFields`.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.addresses import IPV4, IPV6, family_of

from .service_transitions import HEADLESS

_POLICY = "spec.ipFamilyPolicy"


def set_families(spec: JsonObject, old: JsonObject | None, families: Sequence[str]) -> list[FieldError]:
    """Set policy and families of `spec` for a cluster with `families`, the primary one first; return errors.

    The caller must have checked `spec` with `validate_cluster_ips`.
    """
    if spec.get("type") == "ExternalName" or _is_settled(spec, old):
        return []
    is_open = spec.get("clusterIP") == HEADLESS and not spec.get("selector")
    spec.setdefault("ipFamilyPolicy", _default_policy(old, is_open))
    errors = [*_release_second(spec, old), *_check_single_stack(spec), *_infer_from_cluster_ips(spec, families)]
    if errors:
        return errors
    if is_open:
        # Without a selector the client provides the endpoints, also of families that the cluster does not have.
        chosen = spec.setdefault("ipFamilies", [families[0]])
        if spec["ipFamilyPolicy"] != "SingleStack" and len(chosen) == 1:
            chosen.append(_other(chosen[0]))
        return []
    if spec["ipFamilyPolicy"] == "RequireDualStack" and len(families) < 2:
        errors.append(
            field.invalid(_POLICY, "RequireDualStack", "this cluster is not configured for dual-stack services")
        )
    for index, family in enumerate(spec.get("ipFamilies", ())):
        if family not in families:
            errors.append(field.invalid(f"spec.ipFamilies[{index}]", family, "not configured on this cluster"))
    if errors:
        return errors
    chosen = spec.setdefault("ipFamilies", [families[0]])
    if spec["ipFamilyPolicy"] != "SingleStack" and len(chosen) == 1 and len(families) == 2:
        chosen.append(_other(chosen[0]))
    return []


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


def _release_second(spec: JsonObject, old: JsonObject | None) -> list[FieldError]:
    """Drop the second address in an update to SingleStack. Other updates must drop it explicitly."""
    if old is None:
        return []
    errors = []
    for name, what in (("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")):
        now, before = spec.get(name, []), old.get(name, [])
        if spec["ipFamilyPolicy"] == "SingleStack":
            if now == before and len(now) > 1:
                spec[name] = now[:1]
        elif now and len(now) < len(before):
            detail = f"must be 'SingleStack' to release the secondary {what}"
            errors.append(field.invalid(_POLICY, spec["ipFamilyPolicy"], detail))
    return errors


def _check_single_stack(spec: JsonObject) -> list[FieldError]:
    if spec["ipFamilyPolicy"] != "SingleStack":
        return []
    return [
        field.invalid(
            _POLICY,
            "SingleStack",
            f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified",
        )
        for name, what in (("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families"))
        if len(spec.get(name, ())) == 2
    ]


def _infer_from_cluster_ips(spec: JsonObject, families: Sequence[str]) -> list[FieldError]:
    errors = []
    addresses = spec.get("clusterIPs", [])
    known = len(spec.get("ipFamilies", ()))
    for index, address in enumerate(addresses[known:], start=known):
        if address == HEADLESS:
            break
        family = family_of(address)
        if family in families:
            spec.setdefault("ipFamilies", []).append(family)
        else:
            path = f"spec.clusterIPs[{index}]"
            errors.append(field.invalid(path, addresses, f"{family} is not configured on this cluster"))
    return errors


def _other(family: str) -> str:
    return IPV6 if family == IPV4 else IPV4
