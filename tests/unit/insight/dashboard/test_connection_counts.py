from bridgehead.insight.dashboard.connection_counts import count_connections, service_addresses
from bridgehead.insight.facts.network_state import AddressPort, Connection
from bridgehead.insight.live.rows import NodeRow, ServiceRow


def service(name, ports=("http 80:30080/TCP",), addresses=("10.96.0.5",), external=(), type="ClusterIP"):
    return ServiceRow(
        key=f"default/{name}", namespace="default", name=name, type=type, cluster_ips=addresses, external=external,
        ports=ports, ready=1, total=1, problem="", created=0.0,
    )  # fmt: skip


NODE = NodeRow(
    key="node1", name="node1", status="Ready", is_ready=True, proxy="nftables", proxy_problem="", pods=1,
    ip="10.0.0.201", zone="", version="", created=0.0,
)  # fmt: skip


def connection(destination, backend, *, port=80, source=40000, state="ESTABLISHED", is_unreplied=False):
    return Connection(
        protocol="tcp",
        source=AddressPort("10.244.1.9", source),
        destination=AddressPort(destination, port),
        reply_source=AddressPort(backend, 8080 if backend != destination else port),
        reply_destination=AddressPort("10.244.1.9", source),
        state=state,
        is_unreplied=is_unreplied,
    )


def test_services_by_all_their_addresses():
    found = service_addresses([service("web", external=("192.0.2.1",)), service("x", (), ("None",))], [NODE])
    assert found == {
        ("tcp", "10.96.0.5", 80): "default/web",
        ("tcp", "192.0.2.1", 80): "default/web",
        ("tcp", "10.0.0.201", 30080): "default/web",
    }


def test_texts_that_are_no_ports_are_left_out():
    assert service_addresses([service("web", ("?", "80", "80/ICMP", ""))], [NODE]) == {}


def test_an_external_name_has_no_addresses():
    assert service_addresses([service("x", external=("example.com",), type="ExternalName")], [NODE]) == {}


def test_connections_are_counted_where_their_address_is_translated():
    services = service_addresses([service("web")], [NODE])
    count = count_connections(
        [
            connection("10.96.0.5", "10.244.1.2"),
            connection("10.96.0.5", "10.244.1.2", source=40001, state="TIME_WAIT"),
            connection("10.96.0.5", "10.244.2.2", source=40002, state="SYN_SENT", is_unreplied=True),
            connection("10.0.0.201", "10.244.2.2", port=30080, source=40003),
            connection("10.244.1.2", "10.244.1.2", port=8080),  # the same connection at the backend's node
            connection("10.96.0.6", "10.244.1.2"),
        ],
        services,
    )
    assert {path: len(found) for path, found in count.paths.items()} == {
        ("default/web", "10.244.1.2"): 2,
        ("default/web", "10.244.2.2"): 2,
    }
    assert len(count.ended) == 1
    assert {key: len(found) for key, found in count.failing.items()} == {"default/web": 1}
