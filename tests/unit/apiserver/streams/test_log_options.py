"""Log options that the API server refuses."""

from __future__ import annotations

import pytest

from bridgehead.apiserver.errors import ApiStatus
from bridgehead.apiserver.streams.log_options import check_log_options


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
