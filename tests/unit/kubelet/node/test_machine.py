"""Facts about this machine."""

from __future__ import annotations

from pathlib import Path

from bridgehead.kubelet.node.machine import machine_capacity, machine_info
from bridgehead.objects.quantities import parse_quantity


def test_the_machines_capacity_is_read():
    capacity = machine_capacity(Path("/"), 7)
    assert capacity["pods"] == "7"
    assert all(parse_quantity(value) > 0 for value in capacity.values())
    assert machine_info()["containerRuntimeVersion"].startswith("bridgehead://")
