"""W44: Jobs and CronJobs with kubectl."""

from __future__ import annotations

import re

from .conftest import PATIENCE, Namespace, eventually


def test_w44_a_job_runs_to_its_end(ns: Namespace) -> None:
    ns.kubectl("create", "job", "hello", "--image=busybox", "--", "sh", "-c", "echo hello from $HOSTNAME")
    ns.kubectl("wait", "--for=condition=complete", "job/hello", f"--timeout={PATIENCE}s")
    assert "hello from hello-" in ns.kubectl("logs", "job/hello")
    assert re.search(r"^hello +Complete +1/1 +\S+ +\S+$", ns.kubectl("get", "jobs"), re.MULTILINE)
    described = ns.kubectl("describe", "job", "hello")
    for line in (r"Completions: +1", r"Pods Statuses: +0 Active \(0 Ready\) / 1 Succeeded / 0 Failed"):
        assert re.search(line, described), described
    eventually(lambda: "Job completed" in ns.kubectl("describe", "job", "hello"))
    ns.kubectl("delete", "job", "hello")
    eventually(lambda: not ns.pods("job-name=hello"))


def test_w44_a_failing_job_has_a_reason(ns: Namespace) -> None:
    ns.kubectl("create", "job", "broken", "--image=busybox", "--", "sh", "-c", "exit 3")
    ns.kubectl("patch", "job", "broken", "--type=merge", "-p", '{"spec": {"backoffLimit": 0}}')
    ns.kubectl("wait", "--for=condition=failed", "job/broken", f"--timeout={PATIENCE}s")
    eventually(lambda: "BackoffLimitExceeded" in ns.kubectl("describe", "job", "broken"))


def test_w44_a_cron_job_is_a_template_for_jobs(ns: Namespace) -> None:
    ns.kubectl("create", "cronjob", "report", "--image=busybox", "--schedule=0 0 1 1 *", "--", "date")
    assert re.search(r"^report +0 0 1 1 \* +<none> +False +0 +<none> ", ns.kubectl("get", "cj"), re.MULTILINE)
    ns.kubectl("create", "job", "now", "--from=cronjob/report")
    ns.kubectl("wait", "--for=condition=complete", "job/now", f"--timeout={PATIENCE}s")
    ns.kubectl("delete", "cronjob", "report")
    eventually(lambda: "now" not in ns.kubectl("get", "jobs", "-o", "name"))
