"""Statuses for logs that a kubelet refuses, with the texts of Kubernetes."""

from __future__ import annotations

import pytest

from bridgehead.apiserver.streams.log_refusals import refused_log, unreachable_log

DETAILS = {"name": "web", "kind": "pods/log"}


@pytest.mark.parametrize(
    ("code", "reason", "message", "details"),
    [
        (400, "BadRequest", "why", None),
        (500, "InternalError", "Internal error occurred: why", {"causes": [{"message": "why"}]}),
        (404, "NotFound", "the server could not find the requested resource ( pods/log web)", DETAILS),
        (401, "Unauthorized", "the server has asked for the client to provide credentials ( pods/log web)", DETAILS),
        (403, "Forbidden", "why ( pods/log web)", DETAILS),
        (503, "ServiceUnavailable", "the server is currently unable to handle the request ( pods/log web)", DETAILS),
        (
            502,
            "InternalError",
            'an error on the server ("why") has prevented the request from succeeding ( pods/log web)',
            DETAILS,
        ),
        (
            418,
            "",
            "the server responded with the status code 418 but did not return more information ( pods/log web)",
            DETAILS,
        ),
    ],
)
def test_a_kubelets_refusal(code, reason, message, details):
    status = refused_log(code, "why", "web")
    assert (status.code, status.reason, status.message, status.details) == (code, reason, message, details)


def test_a_kubelet_that_is_not_reached():
    status = unreachable_log("https://10.0.0.1:10250/x", "connection refused")
    assert (status.code, status.reason, status.details) == (500, "", None)
    assert status.message == 'Get "https://10.0.0.1:10250/x": connection refused'
