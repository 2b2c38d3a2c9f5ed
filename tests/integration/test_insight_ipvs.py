"""`trace`, `rules`, `flows` and `doctor` in mode ipvs, in the guest, whose kernel has IPVS."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .insight_ipvs_world import InsightWorld

pytestmark = [pytest.mark.integration, pytest.mark.guest]

EACH = 300


@pytest.fixture(scope="module")
def world() -> Iterator[InsightWorld]:
    with InsightWorld("ipvs") as made:
        yield made


def test_expected_fates_backends_and_clients_are_the_real_ones(world: InsightWorld) -> None:
    found = world.compare(seed=28, count=EACH)
    assert not found["differences"], "\n".join(found["differences"])
