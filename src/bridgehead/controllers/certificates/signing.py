"""Signs approved requests for the built-in signers.

Source: kube-controller-manager's certificatesigningrequest-signing-controller (pkg/controller/certificates/signer).
"""

from __future__ import annotations

import base64
import contextlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from bridgehead.client import ApiClient, Done, EventRecorder, Outcome, WorkQueue
from bridgehead.client.errors import Conflict, NotFound
from bridgehead.controllers.shared_informers import Informers
from bridgehead.objects.certificates import CertificateSigningRequest
from bridgehead.objects.kinds import CERTIFICATE_SIGNING_REQUESTS
from bridgehead.objects.meta import ObjectKey

from .recognition import SIGNERS, parse, refusal

if TYPE_CHECKING:
    from .signing_policy import Authority


class CertificateSigningController:
    """Signs requests. The keys of its queue are their names.

    The files hold the authority's certificate and key in PEM; without them nothing is signed. `cluster_signing_seconds`
    is the longest lifetime of a certificate.
    """

    def __init__(
        self,
        client: ApiClient,
        informers: Informers,
        recorder: EventRecorder,
        *,
        cluster_signing_certificate: Path | None = None,
        cluster_signing_key: Path | None = None,
        cluster_signing_seconds: float = 365 * 24 * 3600.0,
    ) -> None:
        self._client = client
        self._files = (cluster_signing_certificate, cluster_signing_key)
        self._lifetime = timedelta(seconds=cluster_signing_seconds)
        self._authority: Authority | None = None
        self._requests = informers.get(CERTIFICATE_SIGNING_REQUESTS)
        self._queue: WorkQueue[str] = WorkQueue("certificate signing")
        self._requests.on_change(self._changed)

    async def run(self) -> None:
        await self._requests.wait_synced()
        await self._queue.run(self.reconcile)

    def _changed(self, old: CertificateSigningRequest | None, new: CertificateSigningRequest | None) -> None:
        if new is not None and _is_waiting(new):
            self._queue.add(new.metadata.name)

    async def reconcile(self, name: str) -> Outcome:
        """Sign one request, or record why it is not signed. Raises ClientError, OSError, ValueError."""
        request = self._requests.get(ObjectKey("", name))
        certificate, key = self._files
        if request is None or not _is_waiting(request) or certificate is None or key is None:
            return Done()
        spec = request.spec
        parsed = parse(spec.request)
        if why := refusal(spec.signer_name, parsed, spec.usages):
            failed = {"type": "Failed", "status": "True", "reason": "SignerValidationFailure", "message": why}
            await self._write(request, {"conditions": [*msgspec.to_builtins(request.status.conditions), failed]})
            return Done()
        if self._authority is None:
            from .signing_policy import Authority

            self._authority = Authority(certificate.read_bytes(), key.read_bytes(), self._lifetime)
        signed = self._authority.sign(parsed, spec.usages, spec.expiration_seconds, datetime.now(UTC))
        await self._write(request, {"certificate": base64.b64encode(signed).decode()})
        return Done()

    async def _write(self, request: CertificateSigningRequest, status: dict[str, Any]) -> None:
        name, metadata = request.metadata.name, {"resourceVersion": request.metadata.resource_version}
        patch = {"metadata": metadata, "status": status}
        with contextlib.suppress(NotFound, Conflict):  # the informer will report the change
            await self._client.patch(CERTIFICATE_SIGNING_REQUESTS, name, "", patch, subresource="status")


def _is_waiting(request: CertificateSigningRequest) -> bool:
    return (
        request.spec.signer_name in SIGNERS
        and request.has_condition("Approved")
        and not request.has_condition("Denied")
        and not request.has_condition("Failed")
        and not request.status.certificate
    )
