"""kill -9 of the API server while clients write: nothing acknowledged is missing, allocations and objects agree.

At length: `python -m benchmarks.crashes`.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from tests.integration.apiserver_process import ServerProcess, write_files
from tests.integration.crashes import Crashes

pytestmark = pytest.mark.integration


def test_a_killed_server_has_all_that_it_acknowledged(tmp_path: Path) -> None:
    write_files(tmp_path)
    path = tmp_path / "state.db"
    with contextlib.closing(ServerProcess(tmp_path, store=f"sqlite://{path}")) as server:
        server.start()
        crashes = Crashes(server, path, clients=8, writes=400, seed=1)
        for _ in range(3):
            outcome = crashes.round()
            assert outcome.problems == []
            assert outcome.acknowledged > 0
            assert not outcome.refused
