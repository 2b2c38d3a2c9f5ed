"""The data path's table: ratios of turns, a row for what could not be measured."""

from __future__ import annotations

import json

import pytest
from benchmarks import datapath, kernels, tables

from tests import guest

TURN = {"rate": 1_000.0, "median": 100.0, "p99": 200.0, "throughput": 20.0}


def measured(*factors: float) -> kernels.Measurement:
    """A measurement of one turn for each factor, by which the Service's figures are those of the direct path."""
    own = [{name: value * factor for name, value in TURN.items()} for factor in factors]
    return kernels.Measurement({"direct": [TURN] * len(factors), "service": own, "first sync": 1.5}, kernel="6.1")


def test_each_ratio_is_the_median_over_the_rounds() -> None:
    table = datapath.table_of([(datapath.Shape("nftables", 1_000), measured(0.5, 0.75, 9.0))])

    assert [list(row) for row in table.rows] == [
        ["direct", "1,000", "", "100.0 us", "", "200.0 us", "", "20.0 Gbit/s", "", ""],
        ["nftables, 1,000 Services", "750", "0.75", "75.0 us", "0.75", "150.0 us", "0.75", "15.0 Gbit/s", "0.75",
         "1.50 s"],
    ]  # fmt: skip
    assert "6.1" not in table.note


def test_the_guest_has_its_own_direct_path_and_its_kernel_is_named() -> None:
    shape = datapath.Shape("ipvs", 1)
    table = datapath.table_of([(datapath.Shape("nftables", 1), measured(1))], [(shape, measured(1))])

    labels = [row[0] for row in table.rows]
    assert labels == ["direct", "nftables, 1 Service", "direct, in the guest", "ipvs, 1 Service, in the guest"]
    assert "Linux 6.1 as a process" in table.note


def test_a_row_states_why_it_was_not_measured() -> None:
    shape = datapath.Shape("iptables-legacy", 1)

    def measure(_: datapath.Shape) -> dict[str, object]:
        raise RuntimeError("no such\ntable | here")

    table = datapath.table_of(list(kernels.measure_here(measure, [shape])))

    assert [list(row) for row in table.rows] == [
        ["iptables-legacy, 1 Service", "not measured: no such table / here", *[""] * 8]
    ]
    assert all(line.count("|") == len(table.columns) + 1 for line in table.lines() if line.startswith("|"))


def test_without_the_guest_each_shape_states_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest, "what_is_missing", lambda: "no guest here")

    found = list(kernels.measure_in_guest("datapath", datapath.GUEST_SHAPES))

    assert found == [(shape, kernels.Measurement(None, "no guest here")) for shape in datapath.GUEST_SHAPES]


def test_every_mode_is_measured_at_every_size() -> None:
    shapes = {*datapath.SHAPES, *datapath.GUEST_SHAPES}

    assert {shape.services for shape in shapes} == {1, 1_000, 10_000}
    assert {shape.mode.partition("-")[0] for shape in shapes} == {"nftables", "iptables", "ipvs", "userspace"}
    assert len(shapes) == 3 * len({shape.mode for shape in shapes})
    assert all(datapath.Shape(*json.loads(json.dumps(shape))) == shape for shape in shapes)  # as the guest receives it


def test_a_reason_does_not_break_the_table() -> None:
    assert tables.not_measured("a\n  b | c") == "not measured: a b / c"
