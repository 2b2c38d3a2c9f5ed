"""From an empty machine and the wheel alone to the README's first look, on Debian 12 and 13, as root and as a user.

`make empty-machine` runs it, and `make test` does not: it makes root file systems with debootstrap, as root.
"""

from __future__ import annotations

import os

import pytest

from tests import empty_machine
from tests.empty_machine import DEBIAN, USERS, Visit

RESULT = empty_machine.REPOSITORY / "benchmarks/results/empty-machine.md"
VISITS: dict[tuple[str, str], Visit] = {}

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.getuid() != 0, reason="only root can make a root file system"),
    pytest.mark.timeout(1800),
]


@pytest.fixture(scope="module", autouse=True)
def _table():
    yield
    if len(VISITS) == len(DEBIAN) * len(USERS):
        RESULT.write_text(empty_machine.table(VISITS) + "\n", "utf-8")


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("suite", DEBIAN)
def test_w54_from_an_empty_machine_to_the_first_look(suite, user):
    seen = empty_machine.visit(suite, user)
    VISITS[suite, user] = seen
    assert 'deployment "web" successfully rolled out' in seen.output
    assert "Welcome to nginx!" in seen.output
