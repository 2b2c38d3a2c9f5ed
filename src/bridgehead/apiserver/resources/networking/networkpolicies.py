"""NetworkPolicy (networking.k8s.io/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateNetworkPolicy`.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network, ip_network

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import Column, JsonObject, Resource, Strategy
from bridgehead.apiserver.resources.shared.address_rules import check_cidr, is_cidr, validate_new_cidr, warn_of_cidr
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

    def validate(self, obj: Field) -> None:
        spec = obj.at("spec")
        types = spec.at("policyTypes", ())
        validate_label_selector(spec.at("podSelector"))
        for direction, peers in _DIRECTIONS:
            for rule in spec.at(direction).each():
                rule.at("ports").must_all_obey(_validate_port)
                rule.at(peers).must_all_obey(_validate_peer)
        if len(types.value) > len(_POLICY_TYPES):
            types.invalid("may not specify more than two policyTypes")
            return
        types.must_all_be_one_of(_POLICY_TYPES)

    def validate_create(self, obj: Field) -> None:
        _validate_new_cidrs(obj, {})

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        _validate_new_cidrs(obj, old)

    def warnings(self, obj: JsonObject) -> list[str]:
        return [text for cidr in _cidrs(Field(obj)) for text in warn_of_cidr(cidr.path, cidr.value)]


def _validate_port(port: Field) -> None:
    port.at("protocol").must_be_one_of(_PROTOCOLS)
    number, end = port.at("port"), port.at("endPort")
    if isinstance(number.value, int):
        number.must_pass(check_port_number)
        if end.value is not None and end.value < number.value:
            end.invalid("must be greater than or equal to `port`")
        end.must_pass(check_port_number)
        return
    if end.value is not None:
        end.invalid(f"may not be specified when `port` is {'not specified' if number.value is None else 'non-numeric'}")
    number.must_pass(check_port_name)


def _validate_peer(peer: Field) -> None:
    selectors = [name for name in ("podSelector", "namespaceSelector") if name in peer.value]
    for name in selectors:
        validate_label_selector(peer.at(name))
    if "ipBlock" in peer.value:
        _validate_block(peer.at("ipBlock"))
        if selectors:
            peer.forbidden("may not specify both ipBlock and another peer")
    elif not selectors:
        peer.required("must specify a peer")


def _validate_block(block: Field) -> None:
    cidr = block.at("cidr")
    if not cidr.must_be_set_and_pass(check_cidr):
        return
    outer = ip_network(cidr.value, strict=False)
    for exception in block.at("except").each():
        exception.must_pass(check_cidr)
        if is_cidr(exception.value) and not _is_strict_subset(ip_network(exception.value, strict=False), outer):
            exception.invalid("must be a strict subset of `cidr`")


def _validate_new_cidrs(policy: Field, old: JsonObject) -> None:
    stored = {cidr.value for cidr in _cidrs(Field(old))}
    for cidr in _cidrs(policy):
        validate_new_cidr(cidr, stored)


def _is_strict_subset(inner: IPv4Network | IPv6Network, outer: IPv4Network | IPv6Network) -> bool:
    return inner.prefixlen > outer.prefixlen and inner.network_address in outer


def _cidrs(policy: Field) -> Iterator[Field]:
    """Yield all valid ranges."""
    for direction, peers in _DIRECTIONS:
        for rule in policy.at("spec").at(direction).each():
            for peer in rule.at(peers).each():
                block = peer.at("ipBlock")
                for cidr in (block.at("cidr", ""), *block.at("except").each()):
                    if is_cidr(cidr.value):
                        yield cidr


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
