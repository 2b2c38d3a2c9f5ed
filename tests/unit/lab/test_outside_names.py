"""Names outside of the cluster, with and without `up --outside`."""

from __future__ import annotations

import msgspec
import pytest

from bridgehead.lab.outside_names import render_node_resolver, render_outside_names
from bridgehead.lab.plan import LabConfig
from bridgehead.lab.system_objects import system_manifests

CONFIG = LabConfig(name="dev", nodes=1, port=6443)
OUTSIDE = msgspec.structs.replace(CONFIG, outside=True)


def corefile(config: LabConfig) -> str:
    (found,) = (one for one in system_manifests("dns.yaml", config) if one["kind"] == "ConfigMap")
    text: str = found["data"]["Corefile"]
    return text


def test_the_corefile_of_a_lab_without_it_is_that_of_earlier_versions() -> None:
    """`up --outside` recognizes it by its text."""
    assert corefile(CONFIG).endswith(
        """\
    reload
}
# Nothing is outside a lab. To ask a name server that runs in it, put its address here: forward . 10.0.0.1:5353
.:53 {
    template ANY ANY {
        rcode NXDOMAIN
    }
}
"""
    )
    assert render_node_resolver(CONFIG) == ""


@pytest.mark.parametrize(
    ("config", "server"),
    [(OUTSIDE, "169.254.253.3"), (msgspec.structs.replace(OUTSIDE, ip_family="ipv6"), "fd00::3")],
)
def test_outside_names_go_to_the_machines_name_server(config: LabConfig, server: str) -> None:
    assert f"    forward . {server}\n" in corefile(config)
    assert "NXDOMAIN" not in corefile(config)
    assert corefile(config).partition("# ")[0] == corefile(CONFIG).partition("# ")[0]
    assert render_node_resolver(config) == f"nameserver {server}\n"
    assert render_outside_names(config) in corefile(config)
