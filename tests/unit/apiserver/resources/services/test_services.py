"""Services: defaults, allocation, changes of type, validation."""

from itertools import product
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.apiserver.errors import ApiStatus
from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resources.services import service_resource
from bridgehead.apiserver.resources.services.service_allocation import (
    AddressRange,
    PortRange,
    allocate_ports,
    claims_of,
)
from tests.unit.apiserver.resources.steps import Refused, Steps, from_yaml, table, texts
from tests.unit.calls import count_calls
from tests.unit.examples import examples


def service(spec, name="web"):
    spec = from_yaml(spec) if isinstance(spec, str) else spec
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


@pytest.fixture
def services():
    return Steps(table()["services"])


@pytest.fixture
def dual():
    return Steps(table("10.96.0.0/12", "fd00:96::/112")["services"])


# --- Defaults --------------------------------------------------------------------------------------------


def test_a_minimal_service_gets_its_defaults(services):
    made = services.create(service("{selector: {app: web}, ports: [{port: 80}]}"))
    address = made["spec"].pop("clusterIP")
    assert made["spec"] == {
        "type": "ClusterIP",
        "selector": {"app": "web"},
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        "clusterIPs": [address],
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "sessionAffinity": "None",
        "internalTrafficPolicy": "Cluster",
    }
    assert made["status"] == {"loadBalancer": {}}


@pytest.mark.parametrize(
    ("spec", "field", "value"),
    [
        (
            "{ports: [{port: 80}], sessionAffinity: ClientIP}",
            "sessionAffinityConfig",
            {"clientIP": {"timeoutSeconds": 10800}},
        ),
        ("{type: NodePort, ports: [{port: 80}]}", "externalTrafficPolicy", "Cluster"),
        ("{type: LoadBalancer, ports: [{port: 80}]}", "externalTrafficPolicy", "Cluster"),
        ("{type: LoadBalancer, ports: [{port: 80}]}", "allocateLoadBalancerNodePorts", True),
        ("{externalIPs: [192.0.2.1], ports: [{port: 80}]}", "externalTrafficPolicy", "Cluster"),
        ("{ports: [{port: 80}]}", "externalTrafficPolicy", None),
        ("{type: ExternalName, externalName: a.example}", "internalTrafficPolicy", None),
        ("{type: ExternalName, externalName: a.example}", "clusterIP", None),
        ("{clusterIP: None, selector: {a: b}}", "clusterIPs", ["None"]),
        ("{clusterIP: None, selector: {a: b}}", "ipFamilies", ["IPv4"]),
        ("{clusterIP: None}", "ipFamilyPolicy", "RequireDualStack"),
        ("{clusterIP: None}", "ipFamilies", ["IPv4", "IPv6"]),
        ("{ports: [{port: 80}], clusterIP: '', externalIPs: [], selector: {}}", "externalIPs", None),
        ("{ports: [{port: 80, targetPort: http}]}", "ports", [{"port": 80, "protocol": "TCP", "targetPort": "http"}]),
    ],
)  # fmt: skip
def test_defaults_of_a_service(services, spec, field, value):
    assert services.create(service(spec))["spec"].get(field) == value


def test_the_status_is_written_through_its_subresource_only(services):
    made = services.create(
        {**service("{ports: [{port: 80}]}"), "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}
    )
    assert made["status"] == {"loadBalancer": {}}
    balanced = services.create(service("{type: LoadBalancer, ports: [{port: 80}]}"))
    wished = {**balanced, "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.9"}]}}, "spec": {"ports": []}}
    updated = services.update(balanced, wished, "status")
    assert updated["status"]["loadBalancer"]["ingress"] == [{"ip": "10.0.0.9", "ipMode": "VIP"}]
    assert updated["spec"] == balanced["spec"]
    assert services.update(updated, service("{type: ClusterIP, ports: [{port: 80}]}"))["status"] == {"loadBalancer": {}}


# --- Addresses of load balancers --------------------------------------------------------------------------


BALANCED = "{type: LoadBalancer, ports: [{port: 80}]}"


def with_ingress(balanced, **ingress):
    return {**balanced, "status": {"loadBalancer": {"ingress": [ingress]}}}


@pytest.mark.parametrize("wanted", ["banana", "1.2.3", "10.0.0.0/8", "::ffff:1.2.3.4", "fe80::1%eth0", "'; drop'"])
def test_an_invalid_load_balancer_ip_is_refused(services, wanted):
    spec = BALANCED[:-1] + f", loadBalancerIP: {wanted!r}}}"
    with pytest.raises(Refused, match=r"spec\.loadBalancerIP: Invalid value: .*: must"):
        services.create(service(spec))
    made = services.create(service(BALANCED))
    old = {**made, "spec": {**made["spec"], "loadBalancerIP": wanted}}  # by a version that did not look
    assert services.update(old, old)["spec"]["loadBalancerIP"] == wanted
    with pytest.raises(Refused, match="loadBalancerIP"):
        services.update(made, old)


@pytest.mark.parametrize("wanted", ["", "192.0.2.7", "2001:db8::7"])
def test_load_balancer_ips_are_validated(services, wanted):
    assert services.create(service(BALANCED[:-1] + f", loadBalancerIP: {wanted!r}}}"))


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("127.0.0.1", "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        ("::1", "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        ("169.254.169.254", "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        ("fe80::1", "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        ("0.0.0.0", "may not be unspecified (0.0.0.0)"),
        ("::", "may not be unspecified (::)"),
        ("224.0.0.1", "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
        ("239.1.2.3", "may not be a multicast address"),
        ("ff0e::1", "may not be a multicast address"),
        ("10.96.0.10", "may not be in the range of cluster IPs (10.96.0.0/12)"),
        ("10.111.255.255", "may not be in the range of cluster IPs (10.96.0.0/12)"),
        ("fd00:10:96:0::5", "may not be in the range of cluster IPs (fd00:10:96::/112)"),
        ("::ffff:127.0.0.1", "must not be an IPv4-mapped IPv6 address"),
        ("banana", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
    ],
)
def test_reserved_load_balancer_addresses_are_refused(address, reason):
    services = Steps(table("10.96.0.0/12", "fd00:10:96::/112")["services"])
    balanced = services.create(service(BALANCED))
    for mode in ("VIP", "Proxy"):
        with pytest.raises(Refused) as refused:
            services.update(balanced, with_ingress(balanced, ip=address, ipMode=mode), "status")
        (error,) = refused.value.errors
        assert error.field == "status.loadBalancer.ingress[0].ip"
        assert error.message == f'Invalid value: "{address}": {reason}'


@pytest.mark.parametrize(
    ("ingress", "expected"),
    [
        ({"hostname": "lb.example.com"}, []),
        (
            {"hostname": "192.0.2.1", "ipMode": "VIP"},
            [
                "status.loadBalancer.ingress[0].ipMode: Forbidden: may not be specified when `ip` is not set",
                'status.loadBalancer.ingress[0].hostname: Invalid value: "192.0.2.1": must be a DNS name, not an IP '
                "address",
            ],
        ),
        (
            {"ip": "192.0.2.1", "ipMode": "Some"},
            [
                'status.loadBalancer.ingress[0].ipMode: Unsupported value: "Some": supported values: "Proxy", "VIP"',
            ],
        ),
    ],
)
def test_ingress_points_of_a_load_balancer(services, ingress, expected):
    balanced = services.create(service(BALANCED))
    try:
        services.update(balanced, with_ingress(balanced, **ingress), "status")
        refused = []
    except Refused as error:
        refused = texts(error.errors)
    assert refused == expected


def test_source_ranges_in_the_older_annotation(services):
    """The field has precedence; an annotation of spaces stands for none."""
    key = "service.beta.kubernetes.io/load-balancer-source-ranges"
    for value, expected in (
        ("10.0.0.0/8,x", [f'metadata.annotations[{key}]: Invalid value: "x": must be a valid CIDR value, (e.g. '
                          "10.9.8.0/24 or 2001:db8::/64)"]),
        (" ", []),
    ):  # fmt: skip
        balanced = service("{ports: [{port: 80}], type: LoadBalancer}")
        balanced["metadata"]["annotations"] = {key: value}
        assert services.refusal(balanced) == expected
        balanced["spec"]["loadBalancerSourceRanges"] = ["10.0.0.0/8"]
        assert services.refusal(balanced) == []


def test_new_source_ranges_are_ranges_and_stored_ones_stay(services):
    text = "{ports: [{port: 80}], type: LoadBalancer, loadBalancerSourceRanges: [%s]}"
    ambiguous = [
        'spec.LoadBalancerSourceRanges[0]: Invalid value: "10.0.0.1/8": must not have bits set beyond the prefix length'
    ]
    assert services.refusal(service(text % "10.0.0.1/8")) == ambiguous
    stored = services.create(service(text % "10.0.0.0/8"))
    with pytest.raises(Refused) as refused:
        services.update(stored, {**stored, "spec": {**stored["spec"], "loadBalancerSourceRanges": ["10.0.0.1/8"]}})
    assert texts(refused.value.errors) == ambiguous
    stored["spec"]["loadBalancerSourceRanges"] = ["10.0.0.1/8"]
    assert services.update(stored, {**stored, "metadata": {**stored["metadata"], "labels": {"a": "b"}}})
    assert services.resource.strategy.warnings(stored) == [
        'spec.loadBalancerSourceRanges[0]: CIDR value "10.0.0.1/8" is ambiguous in this context '
        '(should be "10.0.0.0/8" or "10.0.0.1/32"?)'
    ]


def test_stored_load_balancer_addresses_are_not_validated_again(services):
    balanced = services.create(service(BALANCED))
    old = with_ingress(balanced, ip="10.96.0.10", ipMode="VIP")
    assert services.update(old, {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}})
    assert services.update(old, old, "status")


# --- Allocation ------------------------------------------------------------------------------------------


def test_dynamic_addresses_come_from_the_upper_band_and_static_ones_from_the_lower():
    range_ = AddressRange("10.96.0.0/12")
    taken = set()
    for seed in range(200):
        address = range_.choose(taken.__contains__, Random(seed))
        assert address is not None
        assert int(address.split(".")[2]) >= 1 or int(address.split(".")[1]) > 96
        assert address not in taken
        taken.add(address)
    assert range_.has_room_for("10.96.0.10")


@pytest.mark.parametrize(
    ("cidr", "size"),
    [("10.0.0.0/28", 14), ("10.0.0.0/24", 254), ("10.0.0.0/30", 2), ("fd00::/120", 255), ("10.96.0.0/22", 1022)],
)
def test_every_address_of_a_range_is_allocated_once(cidr, size):
    range_, random, taken = AddressRange(cidr), Random(1), set()
    chosen = []
    while (address := range_.choose(lambda claim: claim in taken, random)) is not None:
        assert range_.has_room_for(address)
        chosen.append(address)
        taken.add(f"clusterip/{address}")
    assert len(chosen) == len(set(chosen)) == size


def test_every_node_port_is_allocated_with_the_lower_band_last():
    ports, random, taken, chosen = PortRange(30000, 30099), Random(1), set(), []
    while (port := ports.choose(lambda claim: claim in taken, random)) is not None:
        chosen.append(port)
        taken.add(f"nodeport/{port}")
    assert sorted(chosen) == list(range(30000, 30100))
    assert set(chosen[-16:]) == set(range(30000, 30016))


@pytest.mark.parametrize("cidr", ["10.0.0.0/32", "10.0.0.1/24", "nonsense"])
def test_a_range_that_is_too_small_is_refused(cidr):
    with pytest.raises(ValueError, match=r".+"):
        service_resource([cidr], (30000, 32767))


@pytest.mark.parametrize("cidrs", [[], ["10.0.0.0/24", "10.1.0.0/24"]])
def test_ranges_of_one_family_twice_are_refused(cidrs):
    with pytest.raises(ValueError, match="one address range, or two of different families"):
        service_resource(cidrs, (30000, 32767))


def test_an_exhausted_range_is_reported():
    services = Steps(service_resource(["10.0.0.0/30"], (30000, 30000)))
    for _ in range(2):
        services.create(service("{ports: [{port: 80}]}"))
    two_ports = "{type: NodePort, clusterIP: None, ports: [{name: a, port: 80}, {name: b, port: 81}]}"
    local = "{type: LoadBalancer, externalTrafficPolicy: Local, clusterIP: None, ports: [{port: 80}]}"
    for spec, why in (
        ("{ports: [{port: 80}]}", "failed to allocate a serviceIP: range is full"),
        (two_ports, "failed to allocate a nodePort: range is full"),
        (local, "failed to allocate a HealthCheck NodePort 0: range is full"),
    ):
        with pytest.raises(ApiStatus) as refused:
            services.create(service(spec))
        assert (refused.value.code, refused.value.reason) == (500, "InternalError")
        assert refused.value.message == f"Internal error occurred: {why}"
        assert refused.value.details == {"causes": [{"message": why}]}


TAKEN = "Invalid value: 30080: provided port is already allocated"
PORT = "{name: %s, port: %s, protocol: %s, nodePort: %s}"


@pytest.mark.parametrize(
    ("ports", "expected"),
    [
        # Two ports of the Service itself: the second one is refused.
        ([("a", 80, "TCP", 30080), ("b", 81, "UDP", 30080)], [f"spec.ports[1].nodePort: {TAKEN}"]),
        ([("a", 80, "TCP", 30080), ("b", 81, "TCP", 30080)], [f"spec.ports[1].nodePort: {TAKEN}"]),
        ([("a", 80, "TCP", 30080), ("b", 81, "UDP", 30081), ("c", 82, "UDP", 30080)], [
            f"spec.ports[2].nodePort: {TAKEN}"]),
        # One number with two protocols shares the node port, so that the first port asks for it.
        ([("a", 80, "TCP", 30080), ("b", 80, "UDP", 30080)], []),
        ([("a", 80, "TCP", 0), ("b", 80, "UDP", 30080)], []),
        ([("a", 80, "TCP", 0), ("b", 80, "UDP", 29)], [
            "spec.ports[0].nodePort: Invalid value: 29: provided port is not in the valid range. "
            "The range of valid ports is 30000-32767"]),
        ([("a", 80, "TCP", 30081), ("b", 80, "UDP", 30080)], []),
        # The first error is reported, and no other ones.
        ([("a", 80, "TCP", 30080), ("a", 81, "UDP", 30080), ("A", 0, "x", 1)], [f"spec.ports[1].nodePort: {TAKEN}"]),
        # Duplicates of one number are left to the validation.
        ([("a", 80, "TCP", 30080), ("b", 80, "TCP", 30080)], [
            "spec.ports[1].nodePort: Duplicate value: 30080",
            'spec.ports[1]: Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,'
            '"NodePort":0}',
        ]),
    ],
)  # fmt: skip
def test_the_port_whose_node_port_is_taken_is_named(services, ports, expected):
    text = ", ".join(PORT % port for port in ports)
    assert services.refusal(service(f"{{type: NodePort, ports: [{text}]}}")) == expected


def test_the_foreign_owner_of_a_node_port_is_met_at_the_first_port_that_asks(services):
    services.create(service("{type: NodePort, ports: [{port: 80, nodePort: 30080}]}"))
    text = "{type: NodePort, ports: [{name: a, port: 53}, {name: b, port: 53, protocol: UDP, nodePort: 30080}]}"
    assert services.refusal(service(text)) == [f"spec.ports[0].nodePort: {TAKEN}"]


def test_an_update_allocates_node_ports_of_its_own(services):
    made = services.create(service("{type: NodePort, ports: [{name: a, port: 53, nodePort: 30053}]}"))

    def update(*ports):
        return services.update(
            made, service(f"{{type: NodePort, ports: [{', '.join(PORT % port for port in ports)}]}}")
        )

    both = update(("a", 53, "TCP", 30053), ("b", 53, "UDP", 0))["spec"]["ports"]
    assert both[1]["nodePort"] not in (0, 30053)
    shared = update(("a", 53, "TCP", 30053), ("b", 54, "UDP", 30053), ("c", 55, "TCP", 30054), ("d", 55, "UDP", 30054))
    assert [port["nodePort"] for port in shared["spec"]["ports"]] == [30053, 30053, 30054, 30054]
    with pytest.raises(ApiStatus) as refused:
        update(("a", 53, "TCP", 30053), ("b", 54, "TCP", 30053))
    assert (refused.value.code, refused.value.message) == (500, "duplicate nodePort: {TCP 30053}")


def test_a_health_check_port_that_is_taken(services):
    text = (
        "{type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: %d, "
        "ports: [{port: 80, nodePort: 30080}]}"
    )
    for port, why in (
        (30080, "provided port is already allocated"),
        (80, "provided port is not in the valid range. The range of valid ports is 30000-32767"),
    ):
        with pytest.raises(ApiStatus) as refused:
            services.create(service(text % port))
        message = f"Internal error occurred: failed to allocate requested HealthCheck NodePort {port}: {why}"
        assert (refused.value.code, refused.value.message) == (500, message)
    made = services.create(service(text % 30081))
    assert services.update_refusal(made, service(text % 30082)) == [
        "spec.healthCheckNodePort: Forbidden: field is immutable"
    ]


def test_addresses_that_are_to_be_chosen_are_shown_as_empty_texts(dual):
    dual.create(service("{clusterIP: 10.96.0.10, ports: [{port: 80}]}"))
    text = "{ipFamilyPolicy: RequireDualStack, clusterIP: 10.96.0.10, ports: [{port: 0}]}"
    assert dual.refusal(service(text)) == [
        'spec.clusterIPs: Invalid value: ["10.96.0.10",""]: failed to allocate IP 10.96.0.10: provided IP is already '
        "allocated"
    ]


def test_malformed_and_superfluous_addresses_are_reported_together(dual):
    text = "{clusterIP: x, clusterIPs: [x, '::1', 10.96.0.1], ports: [{port: 80}]}"
    assert dual.refusal(service(text))[1:] == [
        'spec.clusterIPs: Invalid value: ["x","::1","10.96.0.1"]: may only hold up to 2 values'
    ]
    text = "{clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1, 'fd00:96::1', 10.96.0.2], ports: [{port: 80}]}"
    assert dual.refusal(service(text)) == [
        'spec.clusterIPs: Invalid value: ["10.96.0.1","fd00:96::1","10.96.0.2"]: may only hold up to 2 values'
    ]


def test_errors_of_ports_come_in_the_order_of_kubernetes(services):
    text = "{type: Other, ports: [{name: A, port: 0}, {name: A, port: 0}], selector: {'-': x}, externalIPs: [x]}"
    paths = [refusal.partition(":")[0] for refusal in services.refusal(service(text))]
    assert paths == [
        *("spec.ports[0].name", "spec.ports[0].port", "spec.ports[0].targetPort"),
        *("spec.ports[1].name", "spec.ports[1].name", "spec.ports[1].port", "spec.ports[1].targetPort"),
        *("spec.selector", "spec.externalIPs[0]", "spec.type", "spec.ports[1]"),
    ]


def test_a_udp_and_a_tcp_port_share_a_node_port(services):
    spec = services.create(
        service("{type: NodePort, ports: [{name: udp, port: 53, protocol: UDP}, {name: tcp, port: 53}]}")
    )["spec"]
    assert spec["ports"][0]["nodePort"] == spec["ports"][1]["nodePort"]
    assert len(claims_of(spec)) == 2


def test_a_load_balancer_can_disable_node_ports(services):
    made = services.create(service("{type: LoadBalancer, allocateLoadBalancerNodePorts: false, ports: [{port: 80}]}"))
    assert "nodePort" not in made["spec"]["ports"][0]


def test_local_traffic_policy_allocates_a_health_check_port(services):
    spec = services.create(service("{type: LoadBalancer, externalTrafficPolicy: Local, ports: [{port: 80}]}"))["spec"]
    assert spec["healthCheckNodePort"] != spec["ports"][0]["nodePort"]
    assert claims_of(spec) == {
        f"clusterip/{spec['clusterIP']}",
        f"nodeport/{spec['ports'][0]['nodePort']}",
        f"nodeport/{spec['healthCheckNodePort']}",
    }


def test_released_addresses_and_ports_can_be_allocated_again(services):
    first = services.create(service("{type: NodePort, clusterIP: 10.96.0.10, ports: [{port: 80, nodePort: 30080}]}"))
    other = service("{type: NodePort, clusterIP: 10.96.0.10, ports: [{port: 80, nodePort: 30080}]}", "other")
    assert services.refusal(other) == [
        'spec.clusterIPs: Invalid value: ["10.96.0.10"]: failed to allocate IP 10.96.0.10: provided IP is already '
        "allocated",
    ]
    services.claimed -= services.resource.strategy.claims(first)
    assert services.create(other)


def test_an_address_has_one_claim_in_every_notation(dual):
    dual.create(service("{ipFamilies: [IPv6], clusterIP: 'fd00:96::a', ports: [{port: 80}]}"))
    refused = dual.refusal(service("{ipFamilies: [IPv6], clusterIP: 'fd00:96:0::000a', ports: [{port: 80}]}"))
    assert "already allocated" in refused[0]


@examples(50)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]),
            st.sampled_from(["Cluster", "Local"]),
            st.integers(0, 5),
            st.booleans(),
        ),
        max_size=20,
    )
)
def test_claims_are_exactly_those_of_the_remaining_services(writes):
    """Any sequence of creates, updates and deletes leaves exactly the claims of the remaining Services."""
    services = Steps(service_resource(["10.0.0.0/29"], (30000, 30005), Random(7)))
    stored: dict[int, dict[str, Any]] = {}
    reasons = []
    for type_, policy, slot, deletes in writes:
        if deletes and slot in stored:
            services.claimed -= services.resource.strategy.claims(stored.pop(slot))
            continue
        spec = {"type": type_, "ports": [{"port": 80}], "externalName": "a.example"}
        if type_ in ("NodePort", "LoadBalancer"):
            spec["externalTrafficPolicy"] = policy
        try:
            if slot in stored:
                stored[slot] = services.update(stored[slot], service(spec))
            else:
                stored[slot] = services.create(service(spec))
        except Refused as refused:
            reasons.append(str(refused))
    assert all("range is full" in reason for reason in reasons)
    held = [services.resource.strategy.claims(obj) for obj in stored.values()]
    assert sum(map(len, held)) == len(services.claimed)
    assert services.claimed == set().union(*held)


# --- Families --------------------------------------------------------------------------------------------

FAMILIES = [
    # spec, families, policy
    ("{ports: [{port: 80}]}", ["IPv4"], "SingleStack"),
    ("{ports: [{port: 80}], ipFamilies: [IPv6]}", ["IPv6"], "SingleStack"),
    ("{ports: [{port: 80}], ipFamilyPolicy: PreferDualStack}", ["IPv4", "IPv6"], "PreferDualStack"),
    (
        "{ports: [{port: 80}], ipFamilyPolicy: RequireDualStack, ipFamilies: [IPv6]}",
        ["IPv6", "IPv4"],
        "RequireDualStack",
    ),
    ("{ports: [{port: 80}], clusterIP: 'fd00:96::5'}", ["IPv6"], "SingleStack"),
    ("{clusterIP: None, selector: {a: b}}", ["IPv4"], "SingleStack"),
]


@pytest.mark.parametrize(("spec", "families", "policy"), FAMILIES)
def test_a_dual_stack_cluster_allocates_by_family_policy(dual, spec, families, policy):
    made = dual.create(service(spec))["spec"]
    assert (made["ipFamilies"], made["ipFamilyPolicy"]) == (families, policy)
    if made["clusterIP"] != "None":
        assert [":" in address for address in made["clusterIPs"]] == [family == "IPv6" for family in families]


def test_a_second_family_is_added_and_released(dual):
    single = dual.create(service("{ports: [{port: 80}]}"))
    upgraded = dual.update(single, service("{ports: [{port: 80}], ipFamilyPolicy: RequireDualStack}"))
    assert upgraded["spec"]["clusterIP"] == single["spec"]["clusterIP"]
    assert len(upgraded["spec"]["clusterIPs"]) == 2
    refused = dual.update_refusal(
        upgraded,
        service({**upgraded["spec"], "clusterIPs": upgraded["spec"]["clusterIPs"][:1], "ipFamilies": ["IPv4"]}),
    )
    assert "must be 'SingleStack' to release the secondary cluster IP" in refused[0]
    downgraded = dual.update(upgraded, service({**upgraded["spec"], "ipFamilyPolicy": "SingleStack"}))
    assert downgraded["spec"]["clusterIPs"] == single["spec"]["clusterIPs"]
    assert len(dual.claimed) == 1


# --- Changes of type -------------------------------------------------------------------------------------

TYPES = ("ClusterIP", "Headless", "NodePort", "LoadBalancer", "LocalLoadBalancer", "ExternalName")
SPECS = {
    "ClusterIP": {"type": "ClusterIP"},
    "Headless": {"type": "ClusterIP", "clusterIP": "None"},
    "NodePort": {"type": "NodePort"},
    "LoadBalancer": {"type": "LoadBalancer"},
    "LocalLoadBalancer": {"type": "LoadBalancer", "externalTrafficPolicy": "Local"},
    "ExternalName": {"type": "ExternalName", "externalName": "db.example.com"},
}
PORTS = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
HAS_ADDRESS = {"ClusterIP", "NodePort", "LoadBalancer", "LocalLoadBalancer"}
HAS_NODE_PORT = {"NodePort", "LoadBalancer", "LocalLoadBalancer"}


@pytest.mark.parametrize("method", ["replaced", "edited"])
@pytest.mark.parametrize(("before", "after"), list(product(TYPES, TYPES)))
def test_a_change_of_type_allocates_and_releases(services, before, after, method):
    """`replaced`: the client sends a manifest without allocated fields. `edited`: it changes the stored Service."""
    old = services.create(service({**PORTS, **SPECS[before]}))
    base = PORTS if method == "replaced" else {**old["spec"]}
    wished = service({**base, **SPECS[after]})
    refused = services.update_refusal(old, wished)
    if before == "Headless" and after in HAS_NODE_PORT:
        # `None` was chosen for good: a manifest that doesn't name it keeps it.
        kind = SPECS[after]["type"]
        assert f"spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for {kind} services" in refused
        return
    if after == "Headless" and before in HAS_ADDRESS:
        assert refused == ['spec.clusterIPs[0]: Invalid value: ["None"]: may not change once set']
        return
    assert refused == []
    new = services.update(old, wished)["spec"]
    stays_headless = before == "Headless" and after == "ClusterIP"
    assert bool(new.get("clusterIPs")) == (after != "ExternalName")
    assert ("clusterIP" in new) == ("ipFamilies" in new) == ("ipFamilyPolicy" in new) == (after != "ExternalName")
    if before in HAS_ADDRESS and after in HAS_ADDRESS:
        assert new["clusterIP"] == old["spec"]["clusterIP"]
    if stays_headless or after == "Headless":
        assert new["clusterIP"] == "None"
    assert ("nodePort" in new["ports"][0]) == (after in HAS_NODE_PORT)
    if before in HAS_NODE_PORT and after in HAS_NODE_PORT:
        assert new["ports"] == old["spec"]["ports"]
    assert ("externalTrafficPolicy" in new) == (after in HAS_NODE_PORT)
    expects_health_port = after == "LocalLoadBalancer" or (
        # An edit to plain LoadBalancer doesn't touch the policy, so it stays Local.
        method == "edited" and before == "LocalLoadBalancer" and after == "LoadBalancer"
    )
    assert ("healthCheckNodePort" in new) == expects_health_port
    assert ("allocateLoadBalancerNodePorts" in new) == after.endswith("LoadBalancer")
    assert services.claimed == claims_of(new)


def test_a_node_port_follows_its_port_by_name(services):
    old = services.create(service("{type: NodePort, ports: [{name: a, port: 80}, {name: b, port: 81}]}"))
    known = {port["name"]: port["nodePort"] for port in old["spec"]["ports"]}
    wished = service("{type: NodePort, ports: [{name: b, port: 8081}, {name: a, port: 80}, {name: c, port: 82}]}")
    new = {port["name"]: port["nodePort"] for port in services.update(old, wished)["spec"]["ports"]}
    assert {name: new[name] for name in known} == known
    assert new["c"] not in known.values()


def test_two_ports_can_exchange_their_node_ports(services):
    old = services.create(
        service("{type: NodePort, ports: [{name: a, port: 80, nodePort: 30080}, {name: b, port: 81, nodePort: 30081}]}")
    )
    wished = service(
        "{type: NodePort, ports: [{name: a, port: 80, nodePort: 30081}, {name: b, port: 81, nodePort: 30080}]}"
    )
    assert services.update(old, wished)


def test_a_node_port_set_by_the_client_is_not_cleared_with_the_type(services):
    old = services.create(service("{type: NodePort, ports: [{port: 80, nodePort: 30080}]}"))
    refused = services.update_refusal(old, service("{type: ClusterIP, ports: [{port: 80, nodePort: 30099}]}"))
    assert refused == ["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"]


# --- Refusals --------------------------------------------------------------------------------------------

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
REFUSALS = [
    ("{}", ["spec.ports: Required value"]),
    ("{type: Foo, ports: [{port: 80}]}", [
        'spec.type: Unsupported value: "Foo": supported values: "ClusterIP", "ExternalName", "LoadBalancer", '
        '"NodePort"']),
    ("{ports: [{port: 0}]}", [
        "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
        "spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive"]),
    ("{ports: [{port: 80, targetPort: 70000}]}", [
        "spec.ports[0].targetPort: Invalid value: 70000: must be between 1 and 65535, inclusive"]),
    ("{ports: [{port: 80, targetPort: '8080'}]}", [
        'spec.ports[0].targetPort: Invalid value: "8080": must contain at least one letter (a-z)']),
    ("{ports: [{port: 80, protocol: ICMP}]}", [
        'spec.ports[0].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"']),
    ("{ports: [{port: 80}, {port: 81}]}", [
        "spec.ports[0].name: Required value", "spec.ports[1].name: Required value"]),
    ("{ports: [{name: a, port: 80}, {name: a, port: 81}]}", ['spec.ports[1].name: Duplicate value: "a"']),
    ("{ports: [{name: a, port: 80}, {name: b, port: 80}]}", [
        'spec.ports[1]: Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,'
        '"NodePort":0}']),
    ("{ports: [{name: HTTP, port: 80}]}", [f'spec.ports[0].name: Invalid value: "HTTP": {LABEL}']),
    ("{type: NodePort, ports: [{name: a, port: 80, nodePort: 30080}, {name: b, port: 81, nodePort: 30080}]}", [
        f"spec.ports[1].nodePort: {TAKEN}"]),
    ("{type: NodePort, ports: [{port: 80, nodePort: 80}]}", [
        "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. "
        "The range of valid ports is 30000-32767"]),
    ("{ports: [{port: 80, nodePort: 30080}]}", [
        "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"]),
    ("{ports: [{port: 80}], clusterIP: 10.0.171.239}", [
        'spec.clusterIPs: Invalid value: ["10.0.171.239"]: failed to allocate IP 10.0.171.239: the provided '
        "network does not match the current range; choose an address in 10.96.0.0/12"]),
    ("{ports: [{port: 80}], clusterIP: 10.96.0.0}", [
        'spec.clusterIPs: Invalid value: ["10.96.0.0"]: failed to allocate IP 10.96.0.0: the provided network '
        "does not match the current range; choose an address in 10.96.0.0/12"]),
    ("{ports: [{port: 80}], clusterIP: invalid}", [
        'spec.clusterIPs[0]: Invalid value: "invalid": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)']),
    ("{ports: [{port: 80}], clusterIP: 10.96.0.5, clusterIPs: [10.96.0.6]}", [
        'spec.clusterIPs: Invalid value: ["10.96.0.6"]: first value must match `clusterIP`']),
    ("{ports: [{port: 80}], clusterIPs: [10.96.0.6]}", [
        'spec.clusterIPs: Invalid value: ["10.96.0.6"]: must be empty when `clusterIP` is not specified']),
    ("{ports: [{port: 80}], clusterIP: 10.96.0.6, ipFamilies: [IPv6]}", [
        'spec.clusterIPs[0]: Invalid value: "10.96.0.6": expected an IPv6 value as indicated by `ipFamilies[0]`']),
    ("{ports: [{port: 80}], ipFamilies: [IPv6]}", [
        'spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster']),
    ("{ports: [{port: 80}], ipFamilyPolicy: RequireDualStack}", [
        'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack '
        "services"]),
    ("{ports: [{port: 80}], ipFamilies: [IPv4, IPv4], ipFamilyPolicy: PreferDualStack}", [
        'spec.ipFamilies[1]: Duplicate value: "IPv4"']),
    ("{ports: [{port: 80}], ipFamilyPolicy: Both}", [
        'spec.ipFamilyPolicy: Unsupported value: "Both": supported values: "PreferDualStack", "RequireDualStack", '
        '"SingleStack"']),
    ("{ports: [{port: 80}], sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {}}}", []),
    ("{ports: [{port: 80}], sessionAffinity: None, sessionAffinityConfig: {clientIP: {timeoutSeconds: 0}}}", []),
    ("{ports: [{port: 80}], clusterIP: None, clusterIPs: [None, 10.96.0.3]}", [
        'spec.clusterIPs: Invalid value: ["None","10.96.0.3"]: \'None\' must be the first and only value']),
    ("{ports: [{port: 80}], type: NodePort, externalTrafficPolicy: Some}", [
        'spec.externalTrafficPolicy: Unsupported value: "Some": supported values: "Cluster", "Local"']),
    ("{ports: [{port: 80}], sessionAffinity: Cookie}", [
        'spec.sessionAffinity: Unsupported value: "Cookie": supported values: "ClientIP", "None"']),
    ("{ports: [{port: 80}], sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 0}}}", [
        "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 0: must be greater than 0 and less than "
        "86400"]),
    ("{ports: [{port: 80}], sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 86401}}}", [
        "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 86401: must be greater than 0 and less "
        "than 86400"]),
    ("{ports: [{port: 80}], externalIPs: [127.0.0.1, 169.254.1.1, 224.0.0.5, 0.0.0.0, x]}", [
        'spec.externalIPs[0]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)',
        'spec.externalIPs[1]: Invalid value: "169.254.1.1": may not be in the link-local range (169.254.0.0/16, '
        "fe80::/10)",
        'spec.externalIPs[2]: Invalid value: "224.0.0.5": may not be in the link-local multicast range (224.0.0.0/24, '
        "ff02::/10)",
        'spec.externalIPs[3]: Invalid value: "0.0.0.0": may not be unspecified (0.0.0.0)',
        'spec.externalIPs[4]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)']),
    ("{type: ExternalName}", ["spec.externalName: Required value"]),
    ("{type: ExternalName, externalName: a.example, clusterIP: 10.96.0.9}", [
        "spec.clusterIPs: Forbidden: may not be set for ExternalName services"]),
    ("{type: LoadBalancer, ports: [{port: 10250}]}", [
        "spec.ports[0]: Invalid value: 10250: may not expose port 10250 externally since it is used by kubelet"]),
    ("{ports: [{port: 80}], loadBalancerSourceRanges: [10.0.0.0/8]}", [
        "spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'"]),
    ("{type: LoadBalancer, ports: [{port: 80}], loadBalancerSourceRanges: [10.0.0.0]}", [
        'spec.LoadBalancerSourceRanges[0]: Invalid value: "10.0.0.0": must be a valid CIDR value, (e.g. 10.9.8.0/24 or '
        "2001:db8::/64)"]),
    ("{ports: [{port: 80}], loadBalancerClass: a/b}", [
        "spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'"]),
    ("{ports: [{port: 80}], allocateLoadBalancerNodePorts: false}", [
        "spec.allocateLoadBalancerNodePorts: Forbidden: may only be used when `type` is 'LoadBalancer'"]),
    ("{ports: [{port: 80}], externalTrafficPolicy: Local}", [
        'spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services']),
    ("{type: NodePort, ports: [{port: 80}], externalTrafficPolicy: Near}", [
        'spec.externalTrafficPolicy: Unsupported value: "Near": supported values: "Cluster", "Local"']),
    ("{type: NodePort, ports: [{port: 80}], healthCheckNodePort: 30099}", [
        "spec.healthCheckNodePort: Invalid value: 30099: may only be set when `type` is 'LoadBalancer' and "
        "`externalTrafficPolicy` is 'Local'"]),
    ("{ports: [{port: 80}], internalTrafficPolicy: Near}", [
        'spec.internalTrafficPolicy: Unsupported value: "Near": supported values: "Cluster", "Local"']),
    ("{ports: [{port: 80}], trafficDistribution: Near}", [
        'spec.trafficDistribution: Unsupported value: "Near": supported values: "PreferClose", "PreferSameNode", '
        '"PreferSameZone"']),
    ("{type: NodePort, clusterIP: None, ports: [{port: 80}]}", [
        'spec.clusterIPs[0]: Invalid value: "None": may not be set to \'None\' for NodePort services']),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "expected"), REFUSALS, ids=[spec for spec, _ in REFUSALS])
def test_invalid_services_are_refused_with_kubernetes_messages(services, spec, expected):
    assert services.refusal(service(spec)) == expected


def test_selector_labels_are_validated(services):
    refused = services.refusal(service("{ports: [{port: 80}], selector: {app: 'a b'}}"))
    assert refused[0].startswith('spec.selector: Invalid value: "a b": a valid label must be an empty string')


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("{ports: [{port: 80}]}", []),
        ("{clusterIP: None, selector: {a: b}}", []),
        ("{clusterIP: None, sessionAffinity: ClientIP}", ["spec.SessionAffinity is ignored for headless services"]),
        (
            "{ports: [{port: 80}], externalName: a.example}",
            ['spec.externalName is ignored when spec.type is not "ExternalName"'],
        ),
        (
            "{type: ExternalName, externalName: a.example, externalIPs: [192.0.2.1]}",
            ['spec.externalIPs is ignored when spec.type is "ExternalName"'],
        ),
        (
            "{clusterIP: None, externalIPs: [192.0.2.1]}",
            ["spec.externalIPs is ignored for headless services"],
        ),
        (
            "{ports: [{port: 80}], externalIPs: ['2001:DB8::1']}",
            [
                'spec.externalIPs[0]: IPv6 address "2001:DB8::1" should be in RFC 5952 canonical format '
                '("2001:db8::1")',
                "spec.externalIPs is deprecated",
            ],
        ),
        (
            "{ports: [{port: 80}], trafficDistribution: PreferClose}",
            ['spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'],
        ),
    ],
)
def test_warnings_of_a_service(services, spec, expected):
    assert services.resource.strategy.warnings(services.create(service(spec))) == expected


UPDATE_REFUSALS = [
    ("{ports: [{port: 80}], clusterIP: 10.96.0.10}", "{ports: [{port: 80}], clusterIP: 10.96.0.11}", [
        'spec.clusterIPs[0]: Invalid value: ["10.96.0.11"]: may not change once set']),
    ("{type: LoadBalancer, ports: [{port: 80}], loadBalancerClass: a/b}",
     "{type: LoadBalancer, ports: [{port: 80}], loadBalancerClass: a/c}", [
        'spec.loadBalancerClass: Invalid value: "a/c": may not change once set']),
    ("{type: LoadBalancer, ports: [{port: 80}], loadBalancerClass: a/b}",
     "{type: LoadBalancer, ports: [{port: 80}]}", [
        "spec.loadBalancerClass: Invalid value: null: may not change once set"]),
    ("{type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 30001, ports: [{port: 80}]}",
     "{type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 30002, ports: [{port: 80}]}", [
        "spec.healthCheckNodePort: Forbidden: field is immutable"]),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "expected"), UPDATE_REFUSALS)
def test_immutable_fields_of_a_service_cannot_be_updated(services, before, after, expected):
    assert services.update_refusal(services.create(service(before)), service(after)) == expected


def test_an_update_without_changes_changes_nothing(services):
    for spec in SPECS.values():
        made = services.create(service({**PORTS, **spec}))
        assert services.update(made, made) == made


def test_many_node_ports_take_work_in_proportion():
    def calls(number):
        spec = Field({"type": "NodePort", "ports": [{"port": port} for port in range(1, number + 1)]})
        ports = PortRange(30000, 32767)
        return count_calls(lambda: allocate_ports(spec, None, ports, lambda claim: False, Random(1)))

    assert calls(400) < 3 * calls(200)
