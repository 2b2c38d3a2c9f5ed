"""Requests made from the published OpenAPI v3: no 5xx but Kubernetes' own, no exception in the log, no hang."""

from __future__ import annotations

import asyncio

from tests.unit.apiserver.schema_fuzz import OwnLoop, fuzz


def test_no_request_of_the_published_schemas_causes_an_internal_error():
    with asyncio.Runner(loop_factory=OwnLoop) as runner:
        fuzzer = runner.run(fuzz(seed=7, requests=300))
    assert {key: finding for key, finding in fuzzer.findings.items() if not key.startswith("slow ")} == {}
    assert fuzzer.statuses[201] > 50  # and not all are refused
