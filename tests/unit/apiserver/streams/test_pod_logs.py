"""Logs of pods: options that the API server refuses, and statuses of refusals, with the texts of Kubernetes."""

from __future__ import annotations

import pytest

from bridgehead.apiserver.errors import ApiStatus
from bridgehead.apiserver.streams.pod_logs import check_log_options, refused_log, unreachable_log

DETAILS = {"name": "web", "kind": "pods/log"}


@pytest.mark.parametrize(
    "query",
    [{}, {"tailLines": "0", "limitBytes": "1", "sinceSeconds": "1"}, {"sinceTime": "2026-01-01T00:00:00Z"}],
)
def test_valid_log_options_are_accepted(query):
    check_log_options("web", query)


@pytest.mark.parametrize(
    ("query", "code", "text"),
    [
        ({"tailLines": "x"}, 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ({"tailLines": "-5"}, 422, "tailLines: Invalid value: -5: must be greater than or equal to 0"),
        ({"limitBytes": "0"}, 422, "limitBytes: Invalid value: 0: must be greater than 0"),
        ({"sinceSeconds": "0"}, 422, "sinceSeconds: Invalid value: 0: must be greater than 0"),
        (
            {"sinceSeconds": "1", "sinceTime": "2026-01-01T00:00:00Z"},
            422,
            "at most one of `sinceTime` or `sinceSeconds` may be specified",
        ),
    ],
)
def test_invalid_log_options_are_refused(query, code, text):
    with pytest.raises(ApiStatus) as caught:
        check_log_options("web", query)
    assert caught.value.code == code
    assert text in caught.value.message
    if code == 422:
        assert caught.value.message.startswith('PodLogOptions "web" is invalid: ')


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
