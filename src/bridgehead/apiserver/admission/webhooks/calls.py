"""One call of a webhook: whether to call it, the review, the answer, metrics, warnings and audit annotations."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from functools import cached_property

import msgspec

from bridgehead.apiserver.admission.attributes import Attributes
from bridgehead.apiserver.admission.equivalent_forms import Forms
from bridgehead.apiserver.admission.matching import matches_namespace, matches_object
from bridgehead.apiserver.admission.plugin_dependencies import PluginDependencies
from bridgehead.apiserver.errors import ApiStatus
from bridgehead.apiserver.metrics.waits import record_wait
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.webhookclient.errors import CallFailed, NotConfigured
from bridgehead.apiserver.webhookclient.webhook_location import parse_client_config

from .admission_reviews import Answer, InvalidAnswer, build_review, choose_version, read_answer
from .errors import WebhookFailed, denied, dry_run_unsupported, internal, quoted, request_timed_out
from .hooks import Hook
from .match_conditions import matches_conditions
from .metrics import ADMIT, CALL_FAILED, DENIED, SERVER_FAILED, VALIDATING, WebhookMetrics
from .webhook_sources import Candidate

log = logging.getLogger(__name__)

# Default of kube-apiserver's --request-timeout.
_REQUEST_SECONDS = 60.0

_encode = msgspec.json.Encoder().encode


class Caller:
    """Calls webhooks, mutating and validating ones."""

    def __init__(self, parts: PluginDependencies) -> None:
        self.parts = parts

    @cached_property
    def metrics(self) -> WebhookMetrics:
        return WebhookMetrics(self.parts.metrics)

    async def shown(
        self, candidate: Candidate, attributes: Attributes, forms: Forms, obj: JsonObject, old: JsonObject
    ) -> tuple[JsonObject, JsonObject] | None:
        """Return the objects in the form that the webhook gets, None if it is not to be called. Raises `ApiStatus`."""
        hook = candidate.hook
        if not matches_namespace(hook.namespace_selector, attributes, obj, self.parts.store):
            return None
        if not matches_object(hook.object_selector, obj, old):
            return None
        shown = await forms.shown(obj, candidate.resource), await forms.shown(old, candidate.resource)
        if not hook.match_conditions:
            return shown
        matches = await matches_conditions(hook, self.parts.authorizer, attributes, candidate.resource, *shown)
        return shown if matches else None

    async def ask(
        self, candidate: Candidate, attributes: Attributes, obj: JsonObject, old: JsonObject, *, is_mutating: bool
    ) -> Answer:
        """Call a webhook and return its valid answer, which may be a denial.

        Raises `WebhookFailed`, a 400 for a dry run that the webhook does not support, and a 504 when the webhooks of
        the request have taken too long together.
        """
        hook = candidate.hook
        seconds = min(hook.seconds, _remaining(attributes))
        if seconds <= 0:
            raise request_timed_out()
        if attributes.dry_run and hook.has_side_effects:
            raise dry_run_unsupported(hook.name)
        uid = str(uuid.uuid4())
        try:
            version = choose_version(hook.review_versions)
        except InvalidAnswer as error:
            raise WebhookFailed(hook.name, f"could not create admission objects: {error}", 400) from None
        review = _encode(build_review(version, uid, attributes, candidate.resource, obj, old))
        try:
            config = parse_client_config(hook.client_config)
            given = await self.parts.webhooks.post(config, review, seconds=seconds)
        except NotConfigured as error:
            raise WebhookFailed(hook.name, f"could not get REST client: {error}", 500) from None
        except CallFailed as error:
            raise WebhookFailed(hook.name, f"failed to call webhook: {error}", error.code or 503) from None
        try:
            answer = read_answer(version, uid, given, is_mutating=is_mutating)
        except msgspec.ValidationError as error:
            raise WebhookFailed(hook.name, f"failed to call webhook: json: cannot unmarshal: {error}", 503) from None
        except InvalidAnswer as error:
            raise WebhookFailed(hook.name, f"received invalid webhook response: {error}", 503) from None
        attributes.warnings += answer.warnings or ()
        for key, value in (answer.audit_annotations or {}).items():
            attributes.annotations[f"{hook.name}/{key}"] = value
        return answer


def _remaining(attributes: Attributes) -> float:
    """Return the seconds that webhooks still have for the request."""
    passes, now = attributes.reinvocation, asyncio.get_running_loop().time()
    if not passes.deadline:
        passes.deadline = now + _REQUEST_SECONDS
    return passes.deadline - now


class Call:
    """The outcome of one call, for metrics and for the client. A context manager around the call.

    An exception becomes `refusal`, unless the failure policy ignores it: then `failed_open` is True.
    """

    def __init__(self, caller: Caller, hook: Hook, attributes: Attributes, *, is_mutating: bool) -> None:
        self.refusal: ApiStatus | None = None
        self.failed_open = False
        self._caller, self._hook, self._attributes = caller, hook, attributes
        self._kind = ADMIT if is_mutating else VALIDATING
        self._begun = 0.0

    def __enter__(self) -> Call:
        self._begun = time.perf_counter()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        code, why = 200, ""
        if isinstance(error, WebhookFailed):
            code = error.code
            if self._hook.ignores_failures:
                log.warning("%s; ignored by its failure policy", error)
                self.failed_open = True
                self._caller.metrics.count_failed_open(self._hook.name, self._kind)
            else:
                log.warning("%s; the request is refused", error)
                self.refusal, why = internal(str(error)), CALL_FAILED
        elif isinstance(error, ApiStatus):
            self.refusal, code, why = error, 0, SERVER_FAILED
        elif error is not None:
            return False
        elif self.refusal is not None:
            code, why = self.refusal.code, DENIED
        seconds = time.perf_counter() - self._begun
        if self._kind == ADMIT:  # validating webhooks are asked at once, so their dispatcher records the wait
            record_wait(seconds)
        self._caller.metrics.observe(self._hook.name, self._kind, self._attributes, seconds, code, why)
        return True

    def deny(self, answer: Answer) -> None:
        """Refuse the request because the webhook does."""
        log.info("admission webhook %s denied a request", quoted(self._hook.name))
        self.refusal = denied(self._hook.name, answer.status or {})
