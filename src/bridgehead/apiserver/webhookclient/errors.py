"""Why a call of a webhook failed. Pure: no I/O, no clock, no randomness.

    CallFailed           base: the text is the reason in the API's answers
        NotConfigured    the client configuration can't be used

Source: client-go/rest/request.go (transformResponse), apimachinery/pkg/api/errors (NewGenericServerResponse).
"""

from __future__ import annotations

_MAX_TEXT = 2048  # characters of an answer's body in an error

_TEXTS = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    410: "the server is currently unable to handle the request",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}


class CallFailed(Exception):
    """A webhook gave no usable answer. `code` is the HTTP status of its answer, 0 without one."""

    def __init__(self, why: str, code: int = 0) -> None:
        super().__init__(why)
        self.code = code


class NotConfigured(CallFailed):
    """The client configuration can't be used. The webhook has not been called."""


def describe_status(code: int, body: str) -> str:
    """Return client-go's text for an answer that is not a success."""
    body = body.strip()[:_MAX_TEXT]
    if code == 403 and body:
        return body
    if code in _TEXTS:
        return _TEXTS[code]
    if code >= 500:
        quoted = body.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'an error on the server ("{quoted or "unknown"}") has prevented the request from succeeding'
    return f"the server responded with the status code {code} but did not return more information"
