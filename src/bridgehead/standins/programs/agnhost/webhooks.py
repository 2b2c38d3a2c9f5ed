"""agnhost's webhook and crd-conversion-webhook: HTTPS servers for admission and conversion reviews."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from bridgehead.standins.programs.announcing import announce
from bridgehead.standins.programs.http_session import (
    Handler,
    HttpRequest,
    HttpResponse,
    LateResponse,
)
from bridgehead.standins.programs.stream_server import StreamServer
from bridgehead.standins.standin import Launch

from . import reviews
from .flags import CommandLine, describe
from .responses import not_found, sessions, text
from .tls_session import load_server_context, secure

_DELAY_SECONDS: Final = 5.0
_FOREVER_SECONDS: Final = 3600.0  # longer than any API server waits
_USED: Final = ("tls-cert-file", "tls-private-key-file", "port", "sidecar-image", "alsologtostderr", "v")


def serve_admission(launch: Launch, line: CommandLine) -> int:
    return _serve(launch, line, admission_site(line.flags.get("sidecar-image", ""), time.sleep))


def serve_conversions(launch: Launch, line: CommandLine) -> int:
    return _serve(launch, line, conversion_site)


def _serve(launch: Launch, line: CommandLine, site: Handler) -> int:
    port = line.port("port", 443)
    context = load_server_context(line.flags.get("tls-cert-file", ""), line.flags.get("tls-private-key-file", ""))
    server = StreamServer()
    server.listen(port, secure(context, sessions(site)))
    announce(launch.setup, describe(line, _USED, (f"{port}/TCP",)))
    return server.serve(launch.started)


def admission_site(sidecar_image: str, sleep: Callable[[float], None]) -> Handler:
    reviewers: dict[str, reviews.Reviewer] = {
        "/always-deny": reviews.deny_all,
        "/always-allow-delay-5s": reviews.allow_all,
        "/add-label": reviews.add_label,
        "/pods": reviews.admit_pods,
        "/pods/attach": reviews.deny_attach,
        "/mutating-pods": reviews.add_init_container,
        "/mutating-pods-sidecar": reviews.sidecar_adder(sidecar_image),
        "/configmaps": reviews.admit_data("configmap", "key and value"),
        "/mutating-configmaps": reviews.advance_data,
        "/custom-resource": reviews.admit_data("custom resource", "data"),
        "/mutating-custom-resource": reviews.advance_data,
        "/crd": reviews.admit_definitions,
    }

    def answer(request: HttpRequest) -> HttpResponse | LateResponse:
        path = request.path
        if path == "/readyz":
            return text("ok")
        if path not in reviewers:
            return not_found()
        review = _read(request)
        if review is None:
            return text("Request could not be decoded\n", 400)
        asked = review["request"]
        response = {"uid": asked["uid"], **reviewers[path](asked)}
        answered = _as_json({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response})
        if path == "/always-allow-delay-5s":
            return _answer_after(_DELAY_SECONDS, answered, sleep)
        if path == "/pods" and reviews.waits_forever(asked):
            return _answer_after(_FOREVER_SECONDS, answered, sleep)
        return answered

    return answer


def conversion_site(request: HttpRequest) -> HttpResponse:
    if request.path == "/readyz":
        return text("ok")
    review = _read(request) if request.path == "/crdconvert" else None
    return text("Request could not be decoded\n", 400) if review is None else _as_json(reviews.convert_all(review))


def _read(request: HttpRequest) -> dict[str, Any] | None:
    """The review in a request's body, None if it has none."""
    try:
        review = msgspec.json.decode(request.body)
    except msgspec.DecodeError:
        return None
    return review if isinstance(review, dict) and isinstance(review.get("request"), dict) else None


def _as_json(review: dict[str, Any]) -> HttpResponse:
    return HttpResponse(msgspec.json.encode(review), content_type="application/json")


def _answer_after(seconds: float, response: HttpResponse, sleep: Callable[[float], None]) -> LateResponse:
    def wait() -> HttpResponse:
        sleep(seconds)
        return response

    return LateResponse(wait)
