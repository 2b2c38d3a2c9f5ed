"""Times of the phases of volumes."""

from typing import Any

from tests.unit.apiserver.world import open_world

URL = "/api/v1/persistentvolumes"
NOW = "2026-11-21T03:48:41Z"
SPEC = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/a"}}
EARLIER = "2026-01-01T00:00:00Z"


async def test_a_changed_phase_has_a_time():
    async with open_world() as world:
        await world.create(URL, {"metadata": {"name": "a"}, "spec": SPEC})

        async def write(**status: object) -> dict[str, Any]:
            headers = {"content-type": "application/merge-patch+json"}
            answer = await world.call("PATCH", f"{URL}/a/status", {"status": status}, headers=headers)
            assert answer.status == 200
            return answer.json["status"]

        assert await write(phase="Available", lastPhaseTransitionTime=EARLIER) == {
            "phase": "Available",
            "lastPhaseTransitionTime": EARLIER,
        }
        assert (await write(reason="a", lastPhaseTransitionTime=None))["lastPhaseTransitionTime"] == EARLIER
        assert (await write(phase="Bound"))["lastPhaseTransitionTime"] == NOW
