"""Health endpoints and the metrics of their checks."""

from __future__ import annotations

import pytest

from bridgehead.apiserver.errors import PageNotFound
from bridgehead.apiserver.handlers.health import Check, Health


def succeed() -> str | None:
    return None


def fail() -> str | None:
    return "the disk is full"


def health(**ready: Check) -> Health:
    return Health({"ping": succeed}, {"ping": succeed, **ready})


def ask(health: Health, path: str, *query: tuple[str, str]) -> tuple[int, str]:
    response = health.handle(path, list(query))
    assert response.headers == ((b"x-content-type-options", b"nosniff"),)
    return response.status, response.body.decode()


def test_successful_checks_are_named_to_those_who_ask():
    one = health(etcd=succeed)
    assert ask(one, "/readyz") == ask(one, "/livez") == ask(one, "/readyz/etcd") == (200, "ok")
    assert ask(one, "/readyz", ("verbose", "")) == (200, "[+]ping ok\n[+]etcd ok\nreadyz check passed\n")


def test_a_failed_check_is_named_without_its_reason():
    one = health(etcd=fail)
    assert ask(one, "/readyz") == (500, "[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed\n")
    # This path needs a right of its own.
    assert ask(one, "/readyz/etcd") == (500, "internal server error: the disk is full\n")
    assert ask(one, "/readyz/ping") == ask(one, "/livez") == ask(one, "/healthz") == (200, "ok")


def test_checks_can_be_excluded():
    one = health(etcd=fail, log=fail)
    assert ask(one, "/readyz", ("exclude", "etcd"), ("exclude", "log")) == (200, "ok")
    query = ("verbose", ""), ("exclude", "etcd"), ("exclude", "nope"), ("exclude", "log"), ("exclude", "kms")
    assert ask(one, "/readyz", *query) == (
        200,
        "[+]ping ok\n[+]etcd excluded: ok\n[+]log excluded: ok\n"
        'warn: some health checks cannot be excluded: no matches for "kms","nope"\nreadyz check passed\n',
    )


@pytest.mark.parametrize("path", ["/readyz/", "/readyz/ping/", "/livez/etcd", "/healthz/nope", "/readyz//ping"])
def test_other_paths_do_not_exist(path):
    with pytest.raises(PageNotFound):
        health(etcd=succeed).handle(path, [])


def test_all_paths_are_listed_and_served():
    one = health(**{"poststarthook/rbac/bootstrap-roles": succeed})
    assert one.paths == [
        *("/healthz", "/healthz/ping", "/livez", "/livez/ping", "/readyz", "/readyz/ping"),
        "/readyz/poststarthook/rbac/bootstrap-roles",
    ]
    assert {ask(one, path) for path in one.paths} == {(200, "ok")}
    assert one.serves("/readyz")
    assert not one.serves("/metrics/slis")


def test_results_are_metrics():
    results = iter([None, "no", None])
    one = health(etcd=lambda: next(results))
    for _ in range(3):
        one.handle("/readyz", [])
    one.handle("/readyz", [("exclude", "etcd")])
    text = one.slis("").body.decode()
    for line in (
        'kubernetes_healthcheck{name="etcd",type="readyz"} 1.0',
        'kubernetes_healthchecks_total{name="etcd",status="success",type="readyz"} 2.0',
        'kubernetes_healthchecks_total{name="etcd",status="error",type="readyz"} 1.0',
        'kubernetes_healthchecks_total{name="ping",status="success",type="readyz"} 4.0',
    ):
        assert line in text.splitlines()
