"""Candidates for requests are found once for each kind of request."""

from bridgehead.apiserver.admission import candidates
from bridgehead.apiserver.admission.attributes import CREATE, UPDATE, Attributes
from bridgehead.apiserver.admission.candidates import CandidateCache
from tests.unit.apiserver.admission.test_matching import attributes


def test_candidates_are_found_once_for_each_kind_of_request(monkeypatch):
    calls: list[str] = []

    def find(attributes: Attributes) -> tuple[str, ...]:
        calls.append(attributes.operation)
        return (attributes.operation,)

    def request(operation: str, name: str = "a") -> Attributes:
        return attributes(operation=operation, name=name)

    cache = CandidateCache(find)
    assert [cache.get(request(CREATE, name)) for name in "ab"] == [(CREATE,)] * 2
    assert calls == [CREATE]
    cache.get(request(UPDATE))
    cache.clear()
    cache.get(request(CREATE))
    assert calls == [CREATE, UPDATE, CREATE]
    monkeypatch.setattr(candidates, "_MAX_KEPT", 1)
    cache.get(request(UPDATE))
    cache.get(request(CREATE))
    assert calls == [CREATE, UPDATE, CREATE, UPDATE, CREATE]
