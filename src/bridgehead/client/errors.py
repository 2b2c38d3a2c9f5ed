"""ClientError            base of all errors between this process and the API server
ConfigError            invalid kubeconfig or in-cluster configuration; the message is one line
CredentialsFailed      the kubeconfig's credential plugin gave no credentials
Unreachable            no answer: connection refused, reset or timed out, or an untrusted certificate
BadAnswer              an answer that does not follow the API conventions
ApiError               the API server rejected the request: its `Status`
  BadRequest           400
  Unauthorized         401
  Forbidden            403
  NotFound             404
  AlreadyExists        409, reason AlreadyExists
  Conflict             409, any other reason
  Gone                 410, also reason Expired: the server's history does not reach back that far
  Invalid              422
  TooManyRequests      429
"""

from __future__ import annotations

from typing import Any


class ClientError(Exception):
    """Base of the errors of this package."""


class ConfigError(ClientError): ...


class CredentialsFailed(ClientError): ...


class Unreachable(ClientError): ...


class BadAnswer(ClientError): ...


class ApiError(ClientError):
    """A rejected request. `status` is the HTTP code; the other fields are those of the API's `Status`."""

    def __init__(self, status: int, reason: str, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message or reason or f"HTTP {status}")
        self.status = status
        self.reason = reason
        self.message = message
        self.details = details or {}


class BadRequest(ApiError): ...


class Unauthorized(ApiError): ...


class Forbidden(ApiError): ...


class NotFound(ApiError): ...


class AlreadyExists(ApiError): ...


class Conflict(ApiError): ...


class Gone(ApiError): ...


class Invalid(ApiError): ...


class TooManyRequests(ApiError): ...


_BY_REASON: dict[str, type[ApiError]] = {
    "AlreadyExists": AlreadyExists,
    "Conflict": Conflict,
    "Expired": Gone,
    "Gone": Gone,
}
_BY_CODE: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


def error_from_status(code: int, status: object) -> ApiError:
    """Return the error for an HTTP code and a decoded body, which HTTP proxies may have replaced with anything."""
    if not isinstance(status, dict) or status.get("kind") != "Status":
        if code == 404:  # the text of client-go for a path of no API
            return NotFound(404, "NotFound", "the server could not find the requested resource")
        return _BY_CODE.get(code, ApiError)(code, "", f"HTTP {code}: {str(status)[:200]}")
    code = status.get("code") or code
    reason = status.get("reason") or ""
    found = _BY_REASON.get(reason) or _BY_CODE.get(code, ApiError)
    return found(code, reason, status.get("message") or "", status.get("details") or {})
