"""Causes in Services of type ExternalName, which are aliases in the DNS and nothing more.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from bridgehead.insight.facts.cluster_state import OTHER_NAMESPACES
from bridgehead.insight.findings import Finding, Severity
from bridgehead.objects.meta import ObjectKey

from .near_names import nearest
from .subjects import Facts, ServiceView


def check_external_name(view: ServiceView, facts: Facts) -> Iterator[Finding]:
    """Yield the problems of an alias."""
    if not view.is_external_name:
        return
    name = view.spec.external_name.rstrip(".")
    try:
        ipaddress.ip_address(name)
    except ValueError:
        pass
    else:
        yield view.finding(
            "ExternalNameIsAddress",
            f"externalName is {name}, an address: the DNS answers with an alias of that name, which nobody resolves.",
            fix="use a Service without a selector, and an EndpointSlice with the address",
        )
        return
    key = _service_of(name, facts.cluster.domain)
    if key is not None and facts.cluster.has_seen("services", OTHER_NAMESPACES):
        if key == view.key:
            yield view.finding(
                "ExternalNameLoop",
                f"externalName {name} is the Service itself: resolvers follow the alias in a circle.",
                fix=view.patch('{"spec":{"externalName":"NAME"}}'),
            )
        elif key not in facts.cluster.services:
            here = [other.name for other in facts.cluster.services if other.namespace == key.namespace]
            near = nearest(key.name, here)
            hint = f'; "{near}" was meant, perhaps.' if near else "."
            meant = f"{near or 'NAME'}.{key.namespace}.svc.{facts.cluster.domain}"
            yield view.finding(
                "ExternalNameToNothing",
                f'externalName {name} is the name of Service "{key}", which does not exist{hint}',
                fix=view.patch(f'{{"spec":{{"externalName":"{meant}"}}}}'),
            )
    if view.spec.ports and any(port.target_port not in (0, "", port.port) for port in view.spec.ports):
        yield view.finding(
            "ExternalNamePortsIgnored",
            "The ports of a Service of type ExternalName have no effect: clients connect to the other name's own port.",
            fix=view.patch('{"spec":{"ports":null}}'),
            severity=Severity.NOTICE,
        )


def _service_of(name: str, domain: str) -> ObjectKey | None:
    """Return the Service of a cluster name, `web.shop.svc.cluster.local`; None for other names."""
    labels = name.removesuffix(f".svc.{domain}").split(".")
    return ObjectKey(labels[1], labels[0]) if name.endswith(f".svc.{domain}") and len(labels) == 2 else None
