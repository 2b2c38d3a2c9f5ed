"""Fills Secrets of type kubernetes.io/service-account-token, and deletes them with their service account.

Source: kube-controller-manager's serviceaccount-token-controller (pkg/controller/serviceaccount/tokens_controller.go).
"""

from __future__ import annotations

import base64
import binascii
import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bridgehead.client import ApiClient, Done, EventRecorder, Informer, Outcome, WorkQueue
from bridgehead.client.errors import Conflict, NotFound
from bridgehead.controllers.shared_informers import Informers
from bridgehead.objects.core import Secret, ServiceAccount
from bridgehead.objects.kinds import SECRETS, SERVICE_ACCOUNTS
from bridgehead.objects.meta import ObjectKey

if TYPE_CHECKING:
    from bridgehead.signing_keys import SigningKey

TYPE = "kubernetes.io/service-account-token"
NAME_ANNOTATION, UID_ANNOTATION = "kubernetes.io/service-account.name", "kubernetes.io/service-account.uid"
LEGACY_ISSUER = "kubernetes/serviceaccount"
_CLAIM = "kubernetes.io/serviceaccount/"
_BY_ACCOUNT = "account"

Sign = Callable[[Mapping[str, Any]], str]


class ServiceAccountTokenController:
    """Fills and deletes the Secrets. The keys of its queue are the Secrets'.

    `service_account_private_key` is the file of the key that signs tokens; None: tokens are not made.
    `root_ca` is PEM, "": none.
    """

    def __init__(
        self,
        client: ApiClient,
        informers: Informers,
        recorder: EventRecorder,
        *,
        service_account_private_key: Path | None = None,
        root_ca: str = "",
    ) -> None:
        self._client = client
        self._private_key = service_account_private_key
        self._root_ca = root_ca
        self._key: SigningKey | None = None
        self._accounts = informers.get(SERVICE_ACCOUNTS)
        selector = f"type={TYPE}"
        indexes = {_BY_ACCOUNT: _account_of}
        self._secrets = informers.add(Informer(client, SECRETS, field_selector=selector, indexes=indexes))
        self._queue: WorkQueue[ObjectKey] = WorkQueue("service account tokens")
        self._accounts.on_change(self._account_changed)
        self._secrets.on_change(self._secret_changed)

    async def run(self) -> None:
        await self._accounts.wait_synced()
        await self._secrets.wait_synced()
        await self._queue.run(self.reconcile)

    def _secret_changed(self, old: Secret | None, new: Secret | None) -> None:
        if new is not None:
            self._queue.add(_key(new))

    def _account_changed(self, old: ServiceAccount | None, new: ServiceAccount | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            for secret in self._secrets.by_index(_BY_ACCOUNT, _index_key(old.metadata.namespace, old.metadata.name)):
                self._queue.add(_key(secret))

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Fill one Secret, or delete it if its account does not exist. Raises ClientError, OSError, ValueError."""
        secret = self._secrets.get(key)
        if secret is None or secret.metadata.deletion_timestamp:
            return Done()
        account = await self._account(secret)
        if account is None:
            with contextlib.suppress(NotFound, Conflict):
                await self._client.delete(SECRETS, key.name, key.namespace, uid=secret.metadata.uid)
        elif self._private_key is not None:
            patch = missing_parts(secret, account, self._root_ca, self._sign)
            if patch:
                version = {"resourceVersion": secret.metadata.resource_version}
                patch["metadata"] = {**patch.get("metadata", {}), **version}
                with contextlib.suppress(NotFound, Conflict):  # the informer will report the change
                    await self._client.patch(SECRETS, key.name, key.namespace, patch)
        return Done()

    async def _account(self, secret: Secret) -> ServiceAccount | None:
        """Return the Secret's account, which the informer may not know yet."""
        annotations = secret.metadata.annotations
        name, uid = annotations.get(NAME_ANNOTATION, ""), annotations.get(UID_ANNOTATION, "")
        account = self._accounts.get(ObjectKey(secret.metadata.namespace, name))
        if account is None or (uid and account.metadata.uid != uid):
            try:
                account = await self._client.get(SERVICE_ACCOUNTS, name, secret.metadata.namespace)
            except NotFound:
                return None
        return None if uid and account.metadata.uid != uid else account

    def _sign(self, claims: Mapping[str, Any]) -> str:
        if self._key is None:
            if self._private_key is None:
                raise AssertionError("there is no key")
            # Imported for the first token: few clusters have such Secrets.
            from bridgehead.signing_keys import SigningKey

            self._key = SigningKey.read(self._private_key)
        return self._key.sign(claims)


def _key(secret: Secret) -> ObjectKey:
    return ObjectKey(secret.metadata.namespace, secret.metadata.name)


def _index_key(namespace: str, name: str) -> str:
    return f"{namespace}/{name}"


def _account_of(secret: Secret) -> tuple[str, ...]:
    return (_index_key(secret.metadata.namespace, secret.metadata.annotations.get(NAME_ANNOTATION, "")),)


def missing_parts(secret: Secret, account: ServiceAccount, root_ca: str, sign: Sign) -> dict[str, Any]:
    """Return the merge patch that fills a Secret; {} for a complete one. `sign` makes a token of claims."""
    namespace = secret.metadata.namespace
    data: dict[str, str] = {}
    if root_ca and _decoded(secret, "ca.crt") != root_ca.encode():
        data["ca.crt"] = _encoded(root_ca)
    if not secret.data.get("namespace"):
        data["namespace"] = _encoded(namespace)
    if not secret.data.get("token"):
        data["token"] = _encoded(sign(legacy_claims(secret, account)))
    patch: dict[str, Any] = {"data": data} if data else {}
    if secret.metadata.annotations.get(UID_ANNOTATION) != account.metadata.uid:
        patch["metadata"] = {"annotations": {UID_ANNOTATION: account.metadata.uid}}
    return patch


def legacy_claims(secret: Secret, account: ServiceAccount) -> dict[str, str]:
    """Return the claims of the token that a Secret holds."""
    namespace, name = secret.metadata.namespace, account.metadata.name
    return {
        "iss": LEGACY_ISSUER,
        f"{_CLAIM}namespace": namespace,
        f"{_CLAIM}secret.name": secret.metadata.name,
        f"{_CLAIM}service-account.name": name,
        f"{_CLAIM}service-account.uid": account.metadata.uid,
        "sub": f"system:serviceaccount:{namespace}:{name}",
    }


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _decoded(secret: Secret, key: str) -> bytes | None:
    try:
        return base64.b64decode(secret.data.get(key, ""))
    except binascii.Error:
        return None
