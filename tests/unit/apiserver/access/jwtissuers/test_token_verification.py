"""Tokens of another issuer: keys, times, audiences, and a configuration that changes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import jwt
import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric import ec

from bridgehead.apiserver.access.jwtissuers.keys import KeySet
from bridgehead.apiserver.access.jwtissuers.token_verification import JwtIssuers
from bridgehead.apiserver.http.user import InvalidCredentials
from bridgehead.signing_keys import SigningKey

URL = "https://issuer.example.com"
NOW = 1_800_000_000.0
KEY, OTHER = SigningKey(ec.generate_private_key(ec.SECP256R1())), SigningKey(ec.generate_private_key(ec.SECP256R1()))
CLAIMS = {"iss": URL, "aud": "cluster", "sub": "alice", "exp": NOW + 60}


def configuration(**more: Any) -> str:
    mappings = {"username": {"claim": "sub", "prefix": ""}}
    issuer = {"issuer": {"url": URL, "audiences": ["cluster"]}, "claimMappings": mappings}
    head = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration"}
    return yaml.safe_dump({**head, "jwt": [issuer], **more})


class Fetches:
    """Stands for the HTTPS requests: `published` are the issuer's keys."""

    def __init__(self) -> None:
        self.count = 0
        self.published = [KEY]

    async def fetch(self, keys: KeySet) -> None:
        self.count += 1
        keys._keys = {key.verification.id: jwt.PyJWK(key.verification.jwk()) for key in self.published}


@pytest.fixture
def fetches(monkeypatch: pytest.MonkeyPatch) -> Fetches:
    fetches = Fetches()
    monkeypatch.setattr(KeySet, "_fetch", lambda keys: fetches.fetch(keys))
    return fetches


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "authentication.yaml"
    file.write_text(configuration())
    return file


def open_issuers(path: Path) -> JwtIssuers:
    return JwtIssuers(path, ("https://own",), lambda: NOW)


async def test_a_token_of_the_issuer_identifies_its_user(path, fetches):
    issuers = open_issuers(path)
    for _ in range(3):
        user = await issuers.verify(KEY.sign(CLAIMS), URL)
        assert user is not None
        assert (user.name, user.groups) == ("alice", ("system:authenticated",))
    assert fetches.count == 1, "the keys are kept"
    without_id = jwt.encode(CLAIMS, KEY.private, algorithm="ES256")
    assert await issuers.verify(without_id, URL) is not None
    assert await issuers.verify(KEY.sign(CLAIMS), "https://unknown") is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"exp": NOW}, "token is expired"),
        ({"exp": "soon"}, "oidc: verify token"),
        ({"exp": None}, "oidc: verify token"),
        ({"nbf": NOW + 400}, "before the nbf"),
        ({"aud": "other"}, "Audience doesn't match"),
        ({"aud": ["other"]}, "Audience doesn't match"),
        ({"iss": "https://elsewhere"}, "Invalid issuer"),
    ],
)
async def test_claims_of_a_token_are_verified(path, fetches, changes, message):
    issuers = open_issuers(path)
    assert await issuers.verify(KEY.sign({**CLAIMS, "nbf": NOW + 200, "aud": ["x", "cluster"]}), URL) is not None
    claims = {key: value for key, value in {**CLAIMS, **changes}.items() if value is not None}
    with pytest.raises(InvalidCredentials, match=message):
        await issuers.verify(KEY.sign(claims), URL)


async def test_signatures_are_verified(path, fetches):
    issuers = open_issuers(path)
    forged = jwt.encode(CLAIMS, OTHER.private, algorithm="ES256", headers={"kid": KEY.verification.id})
    none = jwt.encode(CLAIMS, "", algorithm="none", headers={"kid": KEY.verification.id})
    symmetric = jwt.encode(CLAIMS, "x" * 32, algorithm="HS256", headers={"kid": KEY.verification.id})
    for token in (forged, none, symmetric, KEY.sign(CLAIMS)[:-6] + "AAAAAA", "a.b.c"):
        with pytest.raises(InvalidCredentials):
            await issuers.verify(token, URL)


async def test_keys_are_fetched_again_for_an_unknown_id_but_not_often(path, fetches, monkeypatch):
    issuers = open_issuers(path)
    await issuers.verify(KEY.sign(CLAIMS), URL)
    fetches.published = [OTHER]
    for _ in range(3):
        with pytest.raises(InvalidCredentials, match="no key"):
            await issuers.verify(OTHER.sign(CLAIMS), URL)
    assert fetches.count == 1
    monkeypatch.setattr("bridgehead.apiserver.access.jwtissuers.keys._RETRY_SECONDS", 0.0)
    assert await issuers.verify(OTHER.sign(CLAIMS), URL) is not None
    assert fetches.count == 2
    with pytest.raises(InvalidCredentials):
        await issuers.verify(KEY.sign(CLAIMS), URL)


async def test_a_changed_file_is_read_again_and_an_invalid_one_changes_nothing(path, fetches, caplog):
    issuers = open_issuers(path)
    assert issuers.allows_anonymous("/api")
    path.write_text(configuration(anonymous={"enabled": True, "conditions": [{"path": "/livez"}]}))
    assert (issuers.allows_anonymous("/api"), issuers.allows_anonymous("/livez")) == (False, True)
    path.write_text("jwt: nonsense")
    assert not issuers.allows_anonymous("/api")
    assert await issuers.verify(KEY.sign(CLAIMS), URL) is not None
    assert "stays as it was" in caplog.text
    path.unlink()
    assert not issuers.allows_anonymous("/api")
    path.write_text(configuration(jwt=[]))
    assert await issuers.verify(KEY.sign(CLAIMS), URL) is None


def test_a_missing_or_invalid_file_is_an_error_at_the_start(tmp_path, path):
    with pytest.raises(OSError, match="No such file"):
        open_issuers(tmp_path / "missing")
    path.write_text("{}")
    with pytest.raises(ValueError, match="expected kind"):
        open_issuers(path)


async def test_tokens_that_expire_are_compared_with_the_servers_clock(path, fetches):
    issuers = JwtIssuers(path, (), time.time)
    assert await issuers.verify(KEY.sign({**CLAIMS, "exp": time.time() + 60}), URL) is not None
