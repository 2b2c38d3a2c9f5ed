"""Logs of pods: validation of their options, and statuses for those that a kubelet refuses or does not send.

Pure: no I/O, no clock, no randomness.
Source: Kubernetes `ValidatePodLogOptions`; GenericHttpResponseChecker in
apiserver/pkg/registry/generic/rest/response_checker.go, NewGenericServerResponse in apimachinery/pkg/api/errors.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from bridgehead.apiserver.errors import ApiStatus, bad_request, internal_error, invalid
from bridgehead.apiserver.field import Field
from bridgehead.apiserver.http.request_info import parse_int

_AT_LEAST = {"tailLines": 0, "limitBytes": 1, "sinceSeconds": 1}
MAX_TEXT_BYTES = 50_000  # of a kubelet's answer (maxReadLength)

_STATUSES = {
    401: ("Unauthorized", "the server has asked for the client to provide credentials"),
    403: ("Forbidden", ""),  # the kubelet's text
    404: ("NotFound", "the server could not find the requested resource"),
    405: ("MethodNotAllowed", "the server does not allow this method on the requested resource"),
    429: ("TooManyRequests", "the server has received too many requests and has asked us to try again later"),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
    504: (
        "Timeout",
        "the server was unable to return a response in the time allotted, but may still be processing the request",
    ),
}


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


def refused_log(code: int, text: str, pod: str) -> ApiStatus:
    """Return the status for a log of `pod` that the kubelet refused with `code` and `text`."""
    if code == 500:
        return internal_error(text)
    if code == 400:
        return bad_request(text)
    reason, message = _STATUSES.get(code, ("", ""))
    if code == 403:
        message = text
    elif not message and code > 500:
        shown = json.dumps(text, ensure_ascii=False)
        reason, message = "InternalError", f"an error on the server ({shown}) has prevented the request from succeeding"
    elif not message:
        message = f"the server responded with the status code {code} but did not return more information"
    return ApiStatus(code, reason, f"{message} ( pods/log {pod})", {"name": pod, "kind": "pods/log"})


def unreachable_log(url: str, why: str) -> ApiStatus:
    """Return the status for a log whose kubelet does not answer: an error of Go's client, without a reason."""
    return ApiStatus(500, "", f'Get "{url}": {why}')
