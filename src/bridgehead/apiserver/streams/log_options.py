"""Validation of the options of a pod's log.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidatePodLogOptions`.
"""

from __future__ import annotations

from collections.abc import Mapping

from bridgehead.apiserver.errors import bad_request, invalid
from bridgehead.apiserver.field import Field
from bridgehead.apiserver.http.paths import parse_int

_AT_LEAST = {"tailLines": 0, "limitBytes": 1, "sinceSeconds": 1}


def check_log_options(pod: str, query: Mapping[str, str]) -> None:
    """Raise a 400 for a value that is not a number, a 422 for a number out of range."""
    options = Field(query)
    for name, least in _AT_LEAST.items():
        if name not in query:
            continue
        try:
            number = options.at(name).showing(parse_int(query[name]))
        except ValueError as error:
            raise bad_request(str(error)) from None
        number.must_be_at_least(least, "must be greater than 0" if least else "")
    if query.get("sinceSeconds") and query.get("sinceTime"):
        options.forbidden("at most one of `sinceTime` or `sinceSeconds` may be specified")
    if options.errors:
        raise invalid("", "PodLogOptions", pod, options.errors)
