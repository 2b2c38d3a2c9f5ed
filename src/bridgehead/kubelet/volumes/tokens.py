"""Service account tokens of pods: requested with TokenRequest, cached, and renewed before they expire.

Called by `volume_manager`. Source: Kubernetes "TokenRequest API" and kubelet's `token.Manager` (a token is renewed
after 80 % of its lifetime, or after a day).
"""

from __future__ import annotations

import time

import msgspec

from bridgehead.client import ApiClient
from bridgehead.objects.core import Pod, ServiceAccountTokenProjection
from bridgehead.objects.times import parse_time

_RENEW_AFTER_SHARE = 0.8
_RENEW_AFTER_SECONDS = 24 * 3600.0


class Token(msgspec.Struct, frozen=True):
    text: str
    renew_at: float  # seconds since the epoch


_Key = tuple[str, str, int]  # pod uid, audience, seconds


class Tokens:
    """A cache of tokens."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._tokens: dict[_Key, Token] = {}

    async def fetch(self, pod: Pod, projection: ServiceAccountTokenProjection) -> Token:
        """Return the token of this projection, a new one when renewal is due. Raises `ClientError`."""
        key = _key(pod, projection)
        token = self._tokens.get(key)
        if token is None or token.renew_at <= time.time():
            token = await self._request(pod, projection)
            self._tokens[key] = token
        return token

    def get(self, pod: Pod, projection: ServiceAccountTokenProjection) -> str:
        """Return the text of a token that `fetch` has returned before."""
        return self._tokens[_key(pod, projection)].text

    def forget(self, pod_uid: str) -> None:
        """Drop the tokens of a pod."""
        for key in [key for key in self._tokens if key[0] == pod_uid]:
            del self._tokens[key]

    async def _request(self, pod: Pod, projection: ServiceAccountTokenProjection) -> Token:
        name, namespace = pod.spec.service_account_name or "default", pod.metadata.namespace
        requested_at = time.time()
        answer = await self._client.request(
            "POST",
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token",
            json={
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {
                    "audiences": [projection.audience] if projection.audience else [],
                    "expirationSeconds": projection.expiration_seconds,
                    "boundObjectRef": {
                        "apiVersion": "v1",
                        "kind": "Pod",
                        "name": pod.metadata.name,
                        "uid": pod.metadata.uid,
                    },
                },
            },
        )
        status = answer["status"]
        life = parse_time(status["expirationTimestamp"]) - requested_at
        return Token(status["token"], requested_at + min(life * _RENEW_AFTER_SHARE, _RENEW_AFTER_SECONDS))


def _key(pod: Pod, projection: ServiceAccountTokenProjection) -> _Key:
    return (pod.metadata.uid, projection.audience, projection.expiration_seconds)
