"""Approves requests of kubelets for their own client certificates, after a SubjectAccessReview.

Source: kube-controller-manager's certificatesigningrequest-approving-controller (approver/sarapprove.go).
"""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec

from bridgehead.client import ApiClient, Done, EventRecorder, Outcome, WorkQueue
from bridgehead.client.errors import Conflict, NotFound
from bridgehead.controllers.shared_informers import Informers
from bridgehead.objects.certificates import CertificateSigningRequest
from bridgehead.objects.kinds import CERTIFICATE_SIGNING_REQUESTS
from bridgehead.objects.meta import ObjectKey

from .recognition import KUBELET_CLIENT, common_name, parse, refuse_kubelet_client

_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class CertificateApprovingController:
    """Approves requests. The keys of its queue are their names."""

    def __init__(self, client: ApiClient, informers: Informers, recorder: EventRecorder) -> None:
        self._client = client
        self._requests = informers.get(CERTIFICATE_SIGNING_REQUESTS)
        self._queue: WorkQueue[str] = WorkQueue("certificate approval")
        self._requests.on_change(self._changed)

    async def run(self) -> None:
        await self._requests.wait_synced()
        await self._queue.run(self.reconcile)

    def _changed(self, old: CertificateSigningRequest | None, new: CertificateSigningRequest | None) -> None:
        if new is not None and _is_candidate(new):
            self._queue.add(new.metadata.name)

    async def reconcile(self, name: str) -> Outcome:
        """Approve one request if its user has the right. Raises ClientError."""
        request = self._requests.get(ObjectKey("", name))
        if request is None or not _is_candidate(request):
            return Done()
        try:
            parsed = parse(request.spec.request)
        except ValueError:
            return Done()
        if refuse_kubelet_client(parsed, frozenset(request.spec.usages)):
            return Done()
        rights = [("nodeclient", "kubelet client")]
        if common_name(parsed) == request.spec.username:
            rights.insert(0, ("selfnodeclient", "self kubelet client"))
        for subresource, shown in rights:
            if await self._may_create(request, subresource):
                message = f"Auto approving {shown} certificate after SubjectAccessReview."
                await self._approve(request, message)
                break
        return Done()

    async def _may_create(self, request: CertificateSigningRequest, subresource: str) -> bool:
        spec = request.spec
        attributes = {
            "group": "certificates.k8s.io",
            "resource": "certificatesigningrequests",
            "subresource": subresource,
            "verb": "create",
        }
        review: dict[str, Any] = {"user": spec.username, "uid": spec.uid, "groups": list(spec.groups)}
        review |= {"extra": {key: list(values) for key, values in spec.extra.items()}}
        body = {"spec": {**review, "resourceAttributes": attributes}}
        answer = await self._client.request("POST", _REVIEWS, json=body)
        return answer.get("status", {}).get("allowed") is True

    async def _approve(self, request: CertificateSigningRequest, message: str) -> None:
        approved = {"type": "Approved", "status": "True", "reason": "AutoApproved", "message": message}
        conditions = [*msgspec.to_builtins(request.status.conditions), approved]
        metadata = {"resourceVersion": request.metadata.resource_version}
        patch = {"metadata": metadata, "status": {"conditions": conditions}}
        name = request.metadata.name
        with contextlib.suppress(NotFound, Conflict):  # the informer will report the change
            await self._client.patch(CERTIFICATE_SIGNING_REQUESTS, name, "", patch, subresource="approval")


def _is_candidate(request: CertificateSigningRequest) -> bool:
    return (
        request.spec.signer_name == KUBELET_CLIENT
        and not request.status.certificate
        and not request.has_condition("Approved")
        and not request.has_condition("Denied")
    )
