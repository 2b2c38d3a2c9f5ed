"""NetworkPolicy (networking.k8s.io/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateNetworkPolicy`.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network, ip_network

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import Column, JsonObject, Resource, Strategy
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.addresses import check_cidr, is_cidr, validate_new_cidr, warn_of_cidr
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, at, format_label_selector
from bridgehead.apiserver.resources.shared.metadata_validation import validate_label_selector
from bridgehead.objects.names import check_dns1123_subdomain, check_port_name, check_port_number

# The order of Kubernetes' error text.
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_POLICY_TYPES = ("Ingress", "Egress")
# The rules of each direction: the field of the rules, and the field of their peers.
_DIRECTIONS = (("ingress", "from"), ("egress", "to"))


class NetworkPolicyStrategy(Strategy):
    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("podSelector", {})
        for direction, _ in _DIRECTIONS:
            for rule in spec.get(direction, ()):
                for port in rule.get("ports", ()):
                    port.setdefault("protocol", "TCP")
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]

    def validate(self, obj: JsonObject) -> list[FieldError]:
        spec = obj.get("spec", {})
        errors = field.errors_below("spec.podSelector", validate_label_selector, spec.get("podSelector", {}))
        for direction, peers in _DIRECTIONS:
            for index, rule in enumerate(spec.get(direction, ())):
                path = f"spec.{direction}[{index}]"
                for i, port in enumerate(rule.get("ports", ())):
                    errors.extend(_validate_port(f"{path}.ports[{i}]", port))
                for i, peer in enumerate(rule.get(peers, ())):
                    errors.extend(_validate_peer(f"{path}.{peers}[{i}]", peer))
        types = spec.get("policyTypes", [])
        if len(types) > len(_POLICY_TYPES):
            return [*errors, field.invalid("spec.policyTypes", types, "may not specify more than two policyTypes")]
        for index, one in enumerate(types):
            errors.extend(field.one_of(f"spec.policyTypes[{index}]", one, _POLICY_TYPES))
        return errors

    def validate_create(self, obj: JsonObject) -> list[FieldError]:
        return _validate_new_blocks(obj, {})

    def validate_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> list[FieldError]:
        return _validate_new_blocks(obj, old)

    def warnings(self, obj: JsonObject) -> list[str]:
        return [text for path, cidr in _blocks(obj.get("spec", {})) for text in warn_of_cidr(path, cidr)]


def _validate_port(path: str, port: JsonObject) -> list[FieldError]:
    errors = field.one_of(f"{path}.protocol", port.get("protocol", "TCP"), _PROTOCOLS)
    number, end = port.get("port"), port.get("endPort")
    item = f"{path}.endPort"
    if isinstance(number, int):
        errors.extend(field.invalid_for(f"{path}.port", number, check_port_number(number)))
        if end is not None:
            if end < number:
                errors.append(field.invalid(item, end, "must be greater than or equal to `port`"))
            errors.extend(field.invalid_for(item, end, check_port_number(end)))
    elif number is not None:
        if end is not None:
            errors.append(field.invalid(item, end, "may not be specified when `port` is non-numeric"))
        errors.extend(field.invalid_for(f"{path}.port", number, check_port_name(number)))
    elif end is not None:
        errors.append(field.invalid(item, end, "may not be specified when `port` is not specified"))
    return errors


def _validate_peer(path: str, peer: JsonObject) -> list[FieldError]:
    errors = []
    for name in ("podSelector", "namespaceSelector"):
        if name in peer:
            errors.extend(field.errors_below(f"{path}.{name}", validate_label_selector, peer[name]))
    if "ipBlock" in peer:
        errors.extend(_validate_block(f"{path}.ipBlock", peer["ipBlock"]))
        if "podSelector" in peer or "namespaceSelector" in peer:
            errors.append(field.forbidden(path, "may not specify both ipBlock and another peer"))
    elif not ("podSelector" in peer or "namespaceSelector" in peer):
        errors.append(field.required(path, "must specify a peer"))
    return errors


def _validate_block(path: str, block: JsonObject) -> list[FieldError]:
    cidr = block.get("cidr", "")
    if not cidr:
        return [field.required(f"{path}.cidr")]
    if reasons := check_cidr(cidr):
        return field.invalid_for(f"{path}.cidr", cidr, reasons)
    errors = []
    for index, text in enumerate(block.get("except", ())):
        item = f"{path}.except[{index}]"
        errors.extend(field.invalid_for(item, text, check_cidr(text)))
        if is_cidr(text) and not _is_strict_subset(ip_network(text, strict=False), ip_network(cidr, strict=False)):
            errors.append(field.invalid(item, text, "must be a strict subset of `cidr`"))
    return errors


def _validate_new_blocks(policy: JsonObject, old: JsonObject) -> list[FieldError]:
    stored = {cidr for _, cidr in _blocks(old.get("spec", {}))}
    return [
        error
        for path, cidr in _blocks(policy.get("spec", {}))
        for error in field.errors_below(path, validate_new_cidr, cidr, stored)
    ]


def _is_strict_subset(inner: IPv4Network | IPv6Network, outer: IPv4Network | IPv6Network) -> bool:
    return inner.prefixlen > outer.prefixlen and inner.network_address in outer


def _blocks(spec: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield the paths and texts of all valid ranges."""
    for direction, peers in _DIRECTIONS:
        for index, rule in enumerate(spec.get(direction, ())):
            for i, peer in enumerate(rule.get(peers, ())):
                path, block = f"spec.{direction}[{index}].{peers}[{i}].ipBlock", peer.get("ipBlock", {})
                texts = [(f"{path}.cidr", block.get("cidr", ""))]
                texts += [(f"{path}.except[{number}]", text) for number, text in enumerate(block.get("except", ()))]
                yield from ((where, text) for where, text in texts if is_cidr(text))


RESOURCE = Resource(
    group="networking.k8s.io",
    version="v1",
    kind="NetworkPolicy",
    plural="networkpolicies",
    singular="networkpolicy",
    namespaced=True,
    short_names=("netpol",),
    strategy=NetworkPolicyStrategy(),
    columns=(
        NAME,
        Column("Pod-Selector", lambda policy, now: format_label_selector(at(policy, "spec", "podSelector"))),
        AGE,
    ),
    has_generation=True,
    check_name=check_dns1123_subdomain,
)
