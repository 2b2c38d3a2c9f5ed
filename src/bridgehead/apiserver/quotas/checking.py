"""The check that an object fits into the quotas of its namespace, and the counts of quotas.

Pure: no I/O, no clock, no randomness.
Source: Kubernetes apiserver/pkg/admission/plugin/resourcequota/controller.go, pkg/controller/resourcequota.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.pods import ZERO, Amount, Amounts, add, parse_amounts
from bridgehead.objects.quantities import format_quantity

from .scopes import in_scope
from .usage import counted_resource, missing_amounts, usage_of


class QuotaRefused(Exception):
    """The object does not fit. The text is the reason, with the text of Kubernetes."""


def check_quota(
    quota: JsonObject, resource: str, obj: JsonObject, old: JsonObject, now: float
) -> dict[str, str] | None:
    """Return `used` of the quota's status after the write, or None if this does not change. Raises QuotaRefused.

    `old` is the stored object that is changed; {} for a new one.
    """
    status = quota.get("status", {})
    hard = parse_amounts(status.get("hard", {}))
    limited = [name for name in hard if counted_resource(name) == resource]
    if not limited or not in_scope(quota, resource, obj):
        return None
    name = quota["metadata"]["name"]
    if resource == "pods" and (missing := missing_amounts(obj, limited)):
        raise QuotaRefused(f"failed quota: {name}: must specify {missing}")
    used = parse_amounts(status.get("used", {}))
    if not used.keys() >= set(limited):
        raise QuotaRefused(f"status unknown for quota: {name}, resources: {','.join(sorted(limited))}")
    usage = usage_of(resource, obj, now)
    if negative := sorted(key for key, amount in usage.items() if amount.value < 0):
        raise QuotaRefused(f"quota usage is negative for resource(s): {','.join(negative)}")
    if old and in_scope(quota, resource, old):
        usage = _increase(usage, usage_of(resource, old, now))
    asked = {key: amount for key, amount in usage.items() if key in hard and amount.value}
    if not asked:
        return None
    wanted = add(used, asked)
    exceeded = sorted(key for key in asked if wanted[key].value > hard[key].value)
    if exceeded:
        texts = (",".join(f"{key}={_text(amounts[key])}" for key in exceeded) for amounts in (asked, used, hard))
        raise QuotaRefused("exceeded quota: {}, requested: {}, used: {}, limited: {}".format(name, *texts))
    return {key: _text(amount) for key, amount in wanted.items()}


def count_quota(quota: JsonObject, objects: Mapping[str, Iterable[JsonObject]], now: float) -> JsonObject:
    """Return the status of a quota. `objects` has the objects of the namespace by the id of their resource.

    Resources that are not in `objects` are not counted.
    """
    hard = quota.get("spec", {}).get("hard", {})
    names = {name: counted for name in hard if (counted := counted_resource(name)) in objects}
    used: Amounts = dict.fromkeys(names, ZERO)
    for resource in set(names.values()):
        for obj in objects[resource or ""]:
            if in_scope(quota, resource or "", obj):
                usage = usage_of(resource or "", obj, now)
                used = add(used, {key: amount for key, amount in usage.items() if key in names})
    return {"hard": hard, "used": {key: _text(used[key]) for key in hard if key in used}}


def counted_resources(quota: JsonObject) -> set[str]:
    """Return the ids of the resources whose objects a quota counts."""
    names = map(counted_resource, quota.get("spec", {}).get("hard", {}))
    return {name for name in names if name is not None}


def _increase(new: Amounts, old: Amounts) -> Amounts:
    """Return by how much each amount grows; amounts that get smaller count as zero."""
    return {
        key: Amount(max(amount.value - old.get(key, ZERO).value, ZERO.value), amount.is_binary)
        for key, amount in new.items()
    }


def _text(amount: Amount) -> str:
    return format_quantity(amount.value, is_binary=amount.is_binary)
