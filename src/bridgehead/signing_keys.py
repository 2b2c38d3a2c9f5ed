"""Keys of service account tokens, for the API server and the controller of token Secrets: one signs, many may verify.

Algorithms are RS256 and ES256, ES384, ES512, by the key.
Source: Kubernetes pkg/serviceaccount/jwt.go, openidmetadata.go; client-go/util/keyutil.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jwt
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

_OF_CURVE = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
_PEM = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)


class VerificationKey:
    """A public key. `id` is the key id in the tokens' header, `algorithm` the name of the signature in JWTs."""

    def __init__(self, public_key: RSAPublicKey | EllipticCurvePublicKey) -> None:
        """Raises ValueError for a curve that JWTs have no name for."""
        self.public = public_key
        if isinstance(public_key, RSAPublicKey):
            self.algorithm = "RS256"
        elif public_key.curve.name in _OF_CURVE:
            self.algorithm = _OF_CURVE[public_key.curve.name]
        else:
            raise ValueError("unknown private key curve, must be 256, 384, or 521")
        der = public_key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        self.id = base64.urlsafe_b64encode(hashlib.sha256(der).digest()).decode().rstrip("=")

    def jwk(self) -> dict[str, str]:
        """Return the key as a JSON Web Key (RFC 7517)."""
        if isinstance(self.public, RSAPublicKey):
            key: Mapping[str, Any] = jwt.algorithms.RSAAlgorithm.to_jwk(self.public, as_dict=True)
        else:
            key = jwt.algorithms.ECAlgorithm.to_jwk(self.public, as_dict=True)
        numbers = {name: key[name] for name in ("crv", "x", "y", "n", "e") if name in key}
        return {"use": "sig", "kty": key["kty"], "kid": self.id, "alg": self.algorithm, **numbers}


class SigningKey:
    """A private key, and its public one."""

    def __init__(self, private_key: RSAPrivateKey | EllipticCurvePrivateKey) -> None:
        """Raises ValueError for a curve that JWTs have no name for."""
        self.private = private_key
        self.verification = VerificationKey(private_key.public_key())

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
        headers = {"kid": self.verification.id}
        return jwt.encode(dict(claims), self.private, algorithm=self.verification.algorithm, headers=headers)


def read_verification_keys(path: Path) -> list[VerificationKey]:
    """Read the public keys of a file: of private keys, public keys and certificates in PEM.

    Raises OSError, and ValueError when there is none.
    """
    keys = []
    for block in _PEM.finditer(path.read_bytes()):
        try:
            key = _public_key(block[1], block[0])
        except (ValueError, TypeError, UnsupportedAlgorithm):
            continue  # as Kubernetes, which takes what it can read
        if isinstance(key, RSAPublicKey | EllipticCurvePublicKey):
            keys.append(VerificationKey(key))
    if not keys:
        raise ValueError(f"{path}: data does not contain any valid RSA or ECDSA public keys")
    return keys


def _public_key(label: bytes, block: bytes) -> Any:
    if label == b"CERTIFICATE":
        return x509.load_pem_x509_certificate(block).public_key()
    if label.endswith(b"PRIVATE KEY"):
        return serialization.load_pem_private_key(block, password=None).public_key()
    return serialization.load_pem_public_key(block)
