"""Three API servers on an etcd of three members: a short chaos run, whose oracle has tests of its own."""

from __future__ import annotations

from chaos.progress import log
from chaos.servers.injection import FaultKind
from chaos.servers.report import describe, judge
from chaos.servers.run import Options, run_servers

from .namespaced import in_namespace


@in_namespace
async def test_servers_stay_exact_when_one_of_them_and_the_leader_of_etcd_are_killed() -> None:
    faults = (FaultKind.KILL_SERVER, FaultKind.KILL_LEADER)
    seen = await run_servers(Options(writes=600, clients=16, faults=faults), log)
    verdict = judge(seen)
    assert verdict.is_sound, "\n".join(describe(verdict))
    assert seen.recording.written >= 600
