"""Sentences about a gateway."""

from __future__ import annotations

from bridgehead.lab.addressing import IPV4
from bridgehead.lab.gateway.addressing import GatewayPlan
from bridgehead.lab.gateway.description import describe_gateway, describe_state
from bridgehead.lab.plan import LabConfig


def test_the_end_of_up_names_what_is_open() -> None:
    plan = GatewayPlan((IPV4,), outside=True, link="bh-dev")
    routes, outside = describe_gateway(plan, "10.96.0.10", "", "bridgehead")
    assert routes == (
        "This machine has routes to 10.0.0.0/24, 10.244.0.0/16, 10.96.0.0/12 through bh-dev; systemd-resolved knows the"
        " names below cluster.local."
    )
    assert outside == "Pods reach what this machine reaches, but not the machine itself."
    (routes,) = describe_gateway(
        GatewayPlan((IPV4,), outside=False, link="bh-dev"), "10.96.0.10", "systemd-resolved does not run", "./b"
    )
    assert routes.endswith(
        "; names of the lab are not resolved here (systemd-resolved does not run), only by `dig @10.96.0.10` and"
        " `./b tunnel`."
    )


def test_status_names_what_is_open_and_a_gateway_that_has_ended() -> None:
    config = LabConfig(name="dev", nodes=1, port=6443, host_routes=True, outside=True)
    routes, outside = describe_state(config, is_running=True)
    assert routes == "This machine has routes to the lab through bh-dev."
    assert outside == "Pods reach what this machine reaches, but not the machine itself."
    assert all("has ended: `down` and `up`" in line for line in describe_state(config, is_running=False))
    assert list(describe_state(LabConfig(name="dev", nodes=1, port=6443), is_running=False)) == []
