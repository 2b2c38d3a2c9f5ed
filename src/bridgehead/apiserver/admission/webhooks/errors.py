"""Why a webhook gave no usable answer, and answers to the client.

    WebhookFailed    the call failed or its answer is not valid; the failure policy decides about the request

Pure: no I/O, no clock, no randomness. Source: apiserver/pkg/util/webhook/error.go, plugin/webhook/errors.
"""

from __future__ import annotations

import json

from bridgehead.apiserver.errors import ApiStatus, TimedOut, bad_request
from bridgehead.apiserver.resource import JsonObject


class WebhookFailed(Exception):
    """A webhook could not be asked. `code` is the status that metrics count."""

    def __init__(self, webhook: str, why: str, code: int) -> None:
        super().__init__(f"failed calling webhook {quoted(webhook)}: {why}")
        self.code = code


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def internal(why: str) -> ApiStatus:
    """Return a 500 for a webhook's failure."""
    return ApiStatus(500, "InternalError", f"Internal error occurred: {why}", {"causes": [{"message": why}]})


def dry_run_unsupported(webhook: str) -> ApiStatus:
    return bad_request(f"admission webhook {quoted(webhook)} does not support dry run")


def request_timed_out() -> TimedOut:
    return TimedOut("requested")


def denied(webhook: str, status: JsonObject) -> ApiStatus:
    """Return the answer to the client for a request that a webhook denied. `status` is that of its answer."""
    why = f"admission webhook {quoted(webhook)} denied the request"
    reason, message, code = status.get("reason") or "", status.get("message") or "", status.get("code") or 0
    text = f"{why}: {message or reason}" if message or reason else f"{why} without explanation"
    # Other codes than those of errors can't be sent with a rejection.
    return ApiStatus(code if 400 <= code <= 599 else 400, reason, text, status.get("details"))
