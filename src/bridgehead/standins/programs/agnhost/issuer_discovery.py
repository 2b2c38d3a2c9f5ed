"""agnhost's test-service-account-issuer-discovery: check a mounted token by the keys that its issuer publishes."""

from __future__ import annotations

import sys
import urllib.request
from typing import Any, Final

import jwt
import msgspec

from bridgehead.standins.standin import Launch
from bridgehead.tls_certificates import verifying_context

from .flags import CommandLine

_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_TIMEOUT: Final = 10.0  # seconds


def run(launch: Launch, line: CommandLine) -> int:
    launch.started()
    try:
        with open(line.flags.get("token-path", ""), encoding="ascii") as file:
            token = file.read()
        _log("OK: Got token")
        _validate(token, line.flags.get("audience", ""))
    except (OSError, ValueError, KeyError, jwt.PyJWTError) as error:
        _log(f"failed to validate with in-cluster discovery: {error}")
        return 1
    return 0


def _validate(token: str, audience: str) -> None:
    claims = jwt.decode(token, options={"verify_signature": False})
    issuer = claims["iss"]
    _log(f"OK: got issuer {issuer}")
    provider = _fetch(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
    if provider["issuer"] != issuer:
        raise ValueError(f"issuer did not match, expected {issuer!r} got {provider['issuer']!r}")
    _log(f"OK: Constructed OIDC provider for issuer {issuer}")
    keys = jwt.PyJWKSet.from_dict(_fetch(provider["jwks_uri"]))
    key = keys[jwt.get_unverified_header(token)["kid"]]
    jwt.decode(token, key, algorithms=["RS256", "ES256"], audience=audience, issuer=issuer)
    _log("OK: Validated signature on JWT")
    _log("OK: Got valid claims from token!")


def _fetch(url: str) -> dict[str, Any]:
    """A JSON document, asked for with the pod's own token; only the cluster's certificates are trusted."""
    if not url.startswith("https://"):
        raise ValueError(f"{url} is not an https URL")
    with open(f"{_ACCOUNT}/token", encoding="ascii") as file:
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {file.read()}"})
    context = verifying_context(cafile=f"{_ACCOUNT}/ca.crt")
    with urllib.request.urlopen(request, timeout=_TIMEOUT, context=context) as answer:
        return dict(msgspec.json.decode(answer.read()))


def _log(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
