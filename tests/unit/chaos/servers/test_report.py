"""The verdict on a run with several API servers, and its part of the report."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from chaos.linearizability import UNKNOWN, Operation
from chaos.servers.models import Outcome, Verb
from chaos.servers.recordings import Injected, Recording, ServiceWrite, claim_operations, longest_outage
from chaos.servers.report import Observed, describe, judge
from chaos.servers.watches import Acknowledged, Event, Sight

PORT = "nodeport/30100"
LEFT = Event(4, "ADDED", "limited/left", "u1", "c1-1")
SERVICE = Event(5, "ADDED", "shared/web", "u2", PORT)
OBJECTS = {"configmaps": {"limited/left": 4}, "services": {"shared/web": 5}}


def recording(**more: Any) -> Recording:
    return Recording(
        services=[ServiceWrite(1, 1.0, 2.0, Verb.CREATE, "shared/web", Outcome.DONE)],
        acknowledged=[Acknowledged("configmaps", "limited/left", 4, "c1-1")],
        answers={1: [0.0, 1.0, 4.0], 2: [0.5, 3.0, 3.5]},
        read=1234,
        written=5678,
        unknown=9,
        **more,
    )


SEEN = Observed(
    seconds=100,
    recording=recording(),
    sights=[Sight("one", "configmaps", [LEFT]), Sight("one", "services", [SERVICE])],
    faults=[Injected("server killed", 1.5, 2.5)],
    lists=[OBJECTS, OBJECTS],
    stored=OBJECTS,
    limited="limited",
    quota_hard=2,
    quota_used=[0, 2, 1],
    unfinished=[],
)


def test_a_sound_run() -> None:
    verdict = judge(SEEN)
    assert verdict.is_sound, verdict.findings
    lines = list(describe(verdict))
    assert "| 100 | 5,678 | 57 | 9 | 1,234 | 0 | 0 | 2 | 1 | 0 |" in lines
    assert "| server killed | 1.0 | 3.0 s |" in lines


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        ({"unfinished": ["a watcher has not seen the last write"]}, "has not seen"),
        ({"recording": recording(unexpected=["GET: 500"])}, "unexpected answer: GET: 500"),
        ({"sights": SEEN.sights[1:]}, "acknowledged was"),
        (
            {"recording": recording(registers=[Operation("k", 1, 0, 1, Verb.READ, answer="never written")])},
            "no order explains the answers about k",
        ),
        ({"lists": [OBJECTS, {**OBJECTS, "services": {}}]}, "services: server 1 and etcd differ"),
        ({"stored": {**OBJECTS, "services": {}}}, "services: the watchers and etcd differ"),
        ({"quota_used": [0, 2]}, "the quota's used is [2], 1 objects are there"),
        ({"quota_used": []}, "the quota's used is []"),
        ({"quota_used": [3, 1]}, "the quota's used was 3 of 2"),
        ({"quota_hard": 0}, "there were 1 objects of 0"),
    ],
)
def test_violations(change: dict[str, Any], finding: str) -> None:
    verdict = judge(replace(SEEN, **change))
    assert any(finding in line for line in verdict.findings), verdict.findings
    assert "### Violations" in list(describe(verdict))


def test_a_port_that_two_services_have() -> None:
    second = ServiceWrite(2, 3.0, 4.0, Verb.CREATE, "shared/db", Outcome.DONE)
    twice = recording()
    twice.services.append(second)
    services = [SERVICE, replace(SERVICE, revision=6, name="shared/db", uid="u3")]
    sights = [SEEN.sights[0], Sight("one", "services", services)]
    findings = judge(replace(SEEN, recording=twice, sights=sights)).findings
    assert any(f"no order explains the answers about {PORT}" in line for line in findings)


def test_many_violations_are_shortened() -> None:
    verdict = judge(replace(SEEN, unfinished=[f"line {number}" for number in range(60)]))
    assert "- and 20 more" in list(describe(verdict))


def test_claims_come_from_what_watchers_saw_and_from_refusals() -> None:
    lost = ServiceWrite(1, 1.0, UNKNOWN, Verb.CREATE, "shared/web", None)
    never = replace(lost, name="shared/never")
    refused = ServiceWrite(2, 1.0, 2.0, Verb.CREATE, "shared/other", Outcome.TAKEN, PORT)
    assert claim_operations([lost, never, refused], [SERVICE]) == [
        Operation(PORT, 1, 1.0, UNKNOWN, Verb.CREATE, value="shared/web"),
        Operation(PORT, 2, 1.0, 2.0, Verb.CREATE, value="shared/other", answer=Outcome.TAKEN),
    ]


def test_outages_are_those_of_single_clients_during_a_fault() -> None:
    assert longest_outage(recording(), 1.5, 2.5) == 3.0
    assert longest_outage(recording(), 0.1, 0.2) == 1.0
    assert longest_outage(recording(), 10, 20) == 0
