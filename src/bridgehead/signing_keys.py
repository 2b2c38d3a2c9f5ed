"""Keys that sign service account tokens, for the API server and the controller of token Secrets.

Algorithms are RS256 and ES256, ES384, ES512, by the key.
Source: Kubernetes pkg/serviceaccount/jwt.go, openidmetadata.go.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

_OF_CURVE = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}


class SigningKey:
    """A private key. `id` is the key id in the tokens' header, `algorithm` the name of the signature in JWTs."""

    def __init__(self, private_key: RSAPrivateKey | EllipticCurvePrivateKey) -> None:
        """Raises ValueError for a curve that JWTs have no name for."""
        self.private = private_key
        self.public = private_key.public_key()
        if isinstance(private_key, RSAPrivateKey):
            self.algorithm = "RS256"
        elif private_key.curve.name in _OF_CURVE:
            self.algorithm = _OF_CURVE[private_key.curve.name]
        else:
            raise ValueError("unknown private key curve, must be 256, 384, or 521")
        der = self.public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        self.id = base64.urlsafe_b64encode(hashlib.sha256(der).digest()).decode().rstrip("=")

    @classmethod
    def read(cls, path: Path) -> SigningKey:
        """Read a key. Raises OSError, and ValueError when the file holds no RSA or ECDSA private key in PEM."""
        text = path.read_bytes()
        try:
            key = serialization.load_pem_private_key(text, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:  # a TypeError is a key with a password
            raise ValueError(f"{path}: not an RSA or ECDSA private key without a password (PEM)") from error
        if not isinstance(key, RSAPrivateKey | EllipticCurvePrivateKey):
            raise ValueError(f"{path}: not an RSA or ECDSA private key")
        return cls(key)

    def sign(self, claims: Mapping[str, Any]) -> str:
        """Return a JWT with these claims."""
        return jwt.encode(dict(claims), self.private, algorithm=self.algorithm, headers={"kid": self.id})

    def jwk(self) -> dict[str, str]:
        """Return the public key as a JSON Web Key (RFC 7517)."""
        if isinstance(self.private, RSAPrivateKey):
            key: Mapping[str, Any] = jwt.algorithms.RSAAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        else:
            key = jwt.algorithms.ECAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        numbers = {name: key[name] for name in ("crv", "x", "y", "n", "e") if name in key}
        return {"use": "sig", "kty": key["kty"], "kid": self.id, "alg": self.algorithm, **numbers}
