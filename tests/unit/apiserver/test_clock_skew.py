"""Warnings about API servers whose clocks are wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bridgehead.apiserver.clock_skew import ClockSkew, seconds_ahead
from bridgehead.objects.times import format_micro_time
from bridgehead.storage import Facts, Key, Record

NOW = 1_780_000_000.0
LABELS = {"apiserver.kubernetes.io/identity": "kube-apiserver", "kubernetes.io/hostname": "host2"}


def lease(ahead: float, labels: dict[str, str] = LABELS) -> Record:
    value = json.dumps({"spec": {"renewTime": format_micro_time(NOW + ahead)}}).encode()
    return Record(Key("leases.coordination.k8s.io", "kube-system", "apiserver-x"), 1, value, Facts(labels))


@pytest.mark.parametrize("ahead", [0.0, 3600.0, -3600.0])
def test_a_renewal_has_the_time_of_its_server(ahead: float) -> None:
    assert seconds_ahead(lease(ahead).value, NOW) == pytest.approx(ahead)


@pytest.mark.parametrize("value", [b"{}", b"{", b'{"spec":{"renewTime":"yesterday"}}', b'{"spec":{"renewTime":1}}'])
def test_a_lease_without_a_time_is_no_clock(value: bytes) -> None:
    assert seconds_ahead(value, NOW) is None


@pytest.mark.parametrize(("ahead", "text"), [(3600.0, "3600 s ahead of"), (-3600.0, "3600 s behind")])
def test_a_wrong_clock_is_named_once(ahead: float, text: str, caplog: pytest.LogCaptureFixture) -> None:
    registry: Any = None
    skew = ClockSkew(registry, "10.0.0.1:6443")
    skew.compare(lease(ahead), NOW)
    assert not caplog.records, "one renewal may be late"
    skew.compare(lease(ahead), NOW)
    skew.compare(lease(ahead), NOW)
    (record,) = caplog.records
    assert f"apiserver-x on host2 is {text} the clock of this one, 10.0.0.1:6443" in record.getMessage()
    skew.compare(lease(1.0), NOW)
    for _ in range(2):
        skew.compare(lease(ahead), NOW)
    assert len(caplog.records) == 2, "named again after it was right"


def test_small_differences_and_other_leases_are_no_clocks(caplog: pytest.LogCaptureFixture) -> None:
    registry: Any = None
    skew = ClockSkew(registry, "10.0.0.1:6443")
    for _ in range(3):
        skew.compare(lease(9.0), NOW)
        skew.compare(lease(3600.0, {}), NOW)
    assert not caplog.records
