"""EndpointSlices of v1beta1: node and zone are in `topology`."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bridgehead.insight.facts.old_slices import convert, path, to_v1

OLD: dict[str, Any] = {
    "metadata": {"name": "web-1", "namespace": "shop", "labels": {"kubernetes.io/service-name": "web"}},
    "addressType": "IPv4",
    "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
    "endpoints": [
        {
            "addresses": ["10.244.1.2"],
            "conditions": {"ready": True},
            "topology": {"kubernetes.io/hostname": "node1", "topology.kubernetes.io/zone": "a", "rack": "7"},
        },
        {"addresses": ["10.244.1.3"], "nodeName": "node2", "topology": {"kubernetes.io/hostname": "other"}},
        {"addresses": ["10.244.1.4"], "conditions": None, "topology": None},
    ],
}


def test_topology_becomes_node_and_zone() -> None:
    found = convert(OLD)
    assert found is not None
    assert str(found.service_key) == "shop/web"
    assert [(each.node_name, each.zone) for each in found.endpoints] == [("node1", "a"), ("node2", None), (None, None)]
    assert to_v1(OLD)["endpoints"][0]["deprecatedTopology"] == {"rack": "7"}
    assert to_v1(OLD)["apiVersion"] == "discovery.k8s.io/v1"
    assert path("shop") == "/apis/discovery.k8s.io/v1beta1/namespaces/shop/endpointslices"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=5), each, max_size=3),
    max_leaves=8,
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(("metadata", "endpoints", "ports", "addressType"), _JSON)))
def test_any_item_is_converted_or_left_out(item: dict[str, Any]) -> None:
    convert(item)


@given(_JSON, _JSON)
def test_any_endpoint_is_converted_or_left_out(topology: Any, conditions: Any) -> None:
    convert({**OLD, "endpoints": [{"addresses": ["x"], "topology": topology, "conditions": conditions}]})
