"""The Job and CronJob controllers against the real API server over a socket; the test plays the kubelet."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest

from bridgehead.client import ApiClient, EventRecorder, Informer
from bridgehead.client.errors import NotFound
from bridgehead.controllers.jobs.cronjob_controller import CronJobController
from bridgehead.controllers.jobs.job_controller import JobController
from bridgehead.controllers.jobs.progress import INDEX, TRACKING_FINALIZER, index_of
from bridgehead.controllers.shared_informers import Informers
from bridgehead.objects.batch import CronJob, Job, UncountedTerminatedPods
from bridgehead.objects.core import Pod
from bridgehead.objects.kinds import CRON_JOBS, EVENTS, JOBS, PODS, SERVICE_ACCOUNTS
from bridgehead.objects.meta import ObjectKey, is_condition_true
from bridgehead.objects.times import parse_time

from .api_world import api_world, until_seen
from .api_world import running as running_parts

pytestmark = pytest.mark.integration

KEY = ObjectKey("default", "work")


class Cluster:
    """A client, the controllers, and pods that end as the test wants."""

    def __init__(self, client: ApiClient, informers: Informers) -> None:
        self.client = client
        self.informers = informers
        self.now = 0.0

    async def until(self, what: Callable[[], Any]) -> Any:
        informers: list[Informer[Any]] = [self.informers.get(kind) for kind in (JOBS, CRON_JOBS, PODS, EVENTS)]
        return await until_seen(what, *informers)

    def job(self, key: ObjectKey = KEY) -> Job:
        """An empty one while there is none."""
        return self.informers.get(JOBS).get(key) or Job()

    def jobs(self) -> list[Job]:
        return list(self.informers.get(JOBS).items())

    def pods(self, phase: str = "Pending") -> list[Pod]:
        """Pods in a phase, that nobody deletes."""
        return [p for p in self.informers.get(PODS).items() if p.status.phase == phase and not p.is_terminating]

    def is_met(self, condition: str) -> bool:
        return is_condition_true(self.job().status.conditions, condition)

    def messages(self) -> list[str]:
        return [event.message for event in self.informers.get(EVENTS).items()]

    async def end(self, pod: Pod, phase: str = "Succeeded", code: int = 0, time: str = "2026-01-01T00:00:00Z") -> None:
        state = {"terminated": {"exitCode": code, "finishedAt": time}}
        statuses = [{"name": "c", "state": state, "image": "i", "imageID": "", "ready": False, "restartCount": 0}]
        patch = {"status": {"phase": phase, "containerStatuses": statuses}}
        await self.client.patch(PODS, pod.metadata.name, "default", patch, "strategic", "status")

    async def run_out(self, count: int, phase: str = "Succeeded", code: int = 0) -> None:
        """End that many pods, as they come."""
        ended: set[str] = set()
        while len(ended) < count:
            pods = await self.until(lambda: [p for p in self.pods() if p.metadata.uid not in ended])
            for pod in pods:
                ended.add(pod.metadata.uid)
                await self.end(pod, phase, code)


@contextlib.asynccontextmanager
async def running(clock: Callable[[], float] | None = None) -> AsyncIterator[Cluster]:
    async with api_world() as world, ApiClient(world.config) as client:
        await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default", "namespace": "default"}})
        informers = Informers(client)
        recorder = EventRecorder(client, "test")
        informers.get(EVENTS)
        options = {} if clock is None else {"clock": clock}
        controllers: list[Any] = [
            JobController(client, informers, recorder),
            CronJobController(client, informers, recorder, **options),
        ]
        async with running_parts(*(part.run() for part in (informers, recorder, *controllers))):
            yield Cluster(client, informers)


def spec(**fields: Any) -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    return {"template": template, **fields}


async def create(cluster: Cluster, **fields: Any) -> None:
    await cluster.client.create(JOBS, {"metadata": {"name": "work", "namespace": "default"}, "spec": spec(**fields)})


async def test_pods_run_until_the_completions_are_reached():
    async with running() as cluster:
        await create(cluster, completions=5, parallelism=2)
        assert len(await cluster.until(lambda: len(cluster.pods()) == 2 and cluster.pods())) == 2
        await cluster.run_out(5)
        await cluster.until(lambda: cluster.is_met("Complete"))
        status = cluster.job().status
        assert (status.succeeded, status.failed, status.active) == (5, 0, 0)
        assert status.completion_time
        assert status.start_time
        assert [c.type for c in status.conditions] == ["SuccessCriteriaMet", "Complete"]
        await cluster.until(lambda: "Job completed" in cluster.messages())
        # The watch of the pods may be behind that of the Jobs.
        await cluster.until(
            lambda: not any(TRACKING_FINALIZER in pod.metadata.finalizers for pod in cluster.pods("Succeeded"))
        )


async def test_each_pod_counts_once():
    async with running() as cluster:
        await create(cluster, completions=3, parallelism=1)
        await cluster.run_out(1)
        first = await cluster.until(lambda: cluster.job().status.succeeded and cluster.job())
        assert first.status.succeeded == 1
        await cluster.run_out(2)
        await cluster.until(lambda: cluster.is_met("Complete"))
        last = cluster.job().status
        assert (last.succeeded, last.uncounted_terminated_pods) == (3, UncountedTerminatedPods())
        assert len(cluster.pods("Succeeded")) == 3


async def test_a_job_that_fails_too_often():
    async with running() as cluster:
        await create(cluster, backoffLimit=0, completions=2, parallelism=2)
        first, _ = await cluster.until(lambda: len(cluster.pods()) == 2 and cluster.pods())
        await cluster.end(first, "Failed", 3)
        await cluster.until(lambda: cluster.is_met("Failed"))
        # The other pod, which the controller has deleted, has failed, too.
        assert (cluster.job().status.failed, cluster.job().status.conditions[-1].reason) == (2, "BackoffLimitExceeded")
        await cluster.until(lambda: "Job has reached the specified backoff limit" in cluster.messages())


async def test_each_index_runs_once():
    async with running() as cluster:
        await create(cluster, completions=3, parallelism=3, completionMode="Indexed")
        pods = await cluster.until(lambda: len(cluster.pods()) == 3 and cluster.pods())
        assert sorted(pod.metadata.annotations[INDEX] for pod in pods) == ["0", "1", "2"]
        assert all(pod.metadata.name.startswith(f"work-{pod.metadata.annotations[INDEX]}-") for pod in pods)
        assert sorted(pod.spec.hostname for pod in pods) == ["work-0", "work-1", "work-2"]
        await cluster.run_out(3)
        await cluster.until(lambda: cluster.is_met("Complete"))
        assert cluster.job().status.completed_indexes == "0-2"


async def test_a_failed_index_does_not_delay_the_others():
    async with running() as cluster:
        await create(cluster, completions=4, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=5)
        pods = {index_of(pod): pod for pod in await cluster.until(lambda: len(cluster.pods()) == 2 and cluster.pods())}
        # The back-off begins with the end of the container: it lasts as long as the test.
        await cluster.end(pods[0], "Failed", 3, "2099-01-01T00:00:00Z")
        await cluster.end(pods[1])
        known = {pod.metadata.uid for pod in pods.values()}
        (third,) = await cluster.until(lambda: [pod for pod in cluster.pods() if pod.metadata.uid not in known])
        assert index_of(third) == 2


async def test_a_suspended_job_has_no_pods():
    async with running() as cluster:
        await create(cluster, suspend=True)
        await cluster.until(lambda: cluster.is_met("Suspended"))
        assert cluster.pods() == []
        await cluster.client.patch(JOBS, "work", "default", {"spec": {"suspend": False}})
        await cluster.until(lambda: cluster.pods() and not cluster.is_met("Suspended"))
        await cluster.client.patch(JOBS, "work", "default", {"spec": {"suspend": True}})
        await cluster.until(lambda: not cluster.pods() and cluster.is_met("Suspended"))
        await cluster.until(lambda: cluster.job().status.active == 0)
        # The time of the deadline begins anew when the Job goes on, maybe elsewhere.
        assert (cluster.job().status.failed, cluster.job().status.start_time) == (0, None)
        template = {"spec": {"nodeSelector": {"zone": "a"}}}
        await cluster.client.patch(JOBS, "work", "default", {"spec": {"suspend": False, "template": template}})
        (pod,) = await cluster.until(cluster.pods)
        assert pod.spec.node_selector == {"zone": "a"}
        await cluster.until(lambda: {"Job suspended", "Job resumed"} <= set(cluster.messages()))


async def test_a_finished_job_is_deleted_in_time_and_pods_of_a_deleted_one_can_go():
    async with running() as cluster:
        await create(cluster, ttlSecondsAfterFinished=0)
        await cluster.run_out(1)
        await cluster.until(lambda: cluster.job().metadata.deletion_timestamp or not cluster.jobs())
        await create_other(cluster)
        pod = await cluster.until(
            lambda: next((p for p in cluster.pods() if p.metadata.name.startswith("other")), None)
        )
        await cluster.client.delete(JOBS, "other", "default", propagation_policy="Background")
        await cluster.client.delete(PODS, pod.metadata.name, "default", grace_period_seconds=0)
        await cluster.until(lambda: cluster.informers.get(PODS).get(pod.key) is None)


async def create_other(cluster: Cluster) -> None:
    await cluster.client.create(JOBS, {"metadata": {"name": "other", "namespace": "default"}, "spec": spec()})


async def test_a_cron_job_creates_a_job_at_each_time():
    now = parse_time("2030-01-01T00:00:30Z")
    async with running(lambda: now) as cluster:
        await cluster.client.create(
            CRON_JOBS,
            {
                "metadata": {"name": "report", "namespace": "default"},
                "spec": {
                    "schedule": "*/5 * * * *",
                    "concurrencyPolicy": "Forbid",
                    "startingDeadlineSeconds": 200,
                    "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": spec()},
                },
            },
        )
        (job,) = await cluster.until(cluster.jobs)
        assert job.metadata.name == f"report-{int(parse_time('2030-01-01T00:00:00Z')) // 60}"
        assert job.metadata.labels["a"] == "b"

        def status() -> Any:
            found = cluster.informers.get(CRON_JOBS).get(ObjectKey("default", "report")) or CronJob()
            return found.status

        await cluster.until(lambda: status().last_schedule_time == "2030-01-01T00:00:00Z" and status().active)
        # The controller finds an active Job that its index of the CronJob's Jobs lacks, as while the watch is behind.
        late = await cluster.client.create(
            JOBS, {"metadata": {"name": "late", "namespace": "default"}, "spec": spec(suspend=True)}
        )
        active = [msgspec.to_builtins(status().active[0]), {"name": "late", "uid": late.metadata.uid}]
        await cluster.client.patch(CRON_JOBS, "report", "default", {"status": {"active": active}}, subresource="status")
        await cluster.until(lambda: len(status().active) == 2)
        manual = {
            "metadata": {
                "name": "manual",
                "namespace": "default",
                "ownerReferences": [msgspec.to_builtins(job.metadata.owner_references[0])],
            },
            "spec": spec(suspend=True),
        }
        await cluster.client.create(JOBS, manual)
        unexpected = "Saw a job that the controller did not create or forgot: manual"
        await cluster.until(lambda: unexpected in cluster.messages())
        assert "Active job went missing: late" not in cluster.messages()
        assert [reference.name for reference in status().active] == [job.metadata.name, "late"]
        await cluster.client.delete(JOBS, "late", "default", propagation_policy="Background")
        now += 300
        await cluster.client.patch(CRON_JOBS, "report", "default", {"metadata": {"labels": {"poke": "1"}}})
        await cluster.until(lambda: any("prior execution is running" in text for text in cluster.messages()))
        await cluster.until(lambda: "Active job went missing: late" in cluster.messages())
        await cluster.run_out(1)
        await cluster.until(lambda: len([one for one in cluster.jobs() if one.metadata.name != "late"]) == 3)
        await cluster.until(lambda: any("Saw completed job: report-" in text for text in cluster.messages()))
        await cluster.client.patch(CRON_JOBS, "report", "default", {"spec": {"schedule": "0 0 31 2 *"}})
        never = "invalid schedule: 0 0 31 2 * : time difference between two schedules is less than 1 second"
        await cluster.until(lambda: never in cluster.messages())
        with contextlib.suppress(NotFound):
            await cluster.client.delete(CRON_JOBS, "report", "default")
