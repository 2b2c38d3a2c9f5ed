"""The benchmark of large clusters at a small size: it runs to its end, and each part has done its work."""

from __future__ import annotations

import pytest
from benchmarks import scale

pytestmark = [pytest.mark.integration, pytest.mark.needs("nft", "unshare")]

SMALL = scale.Options(nodes=20, seconds=1, changes=30, operations=10)


def test_a_small_cluster_is_measured_to_the_end() -> None:
    (table,) = scale.run([SMALL])
    figures = {row[0]: row[1] for row in table.rows}
    assert "the run" not in figures, figures["the run"]
    assert figures["pods, Services"] == "600, 176"
    assert figures["watches of services: each"].startswith("40: ")
    assert figures["together: to the watches"].endswith(" 0 watches lost")
    refused = {name: text for name, text in figures.items() if "answers by status" in text}
    assert not refused
