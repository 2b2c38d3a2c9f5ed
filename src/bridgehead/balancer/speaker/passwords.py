"""Passwords of BGP sessions, in Secrets of the API server."""

from __future__ import annotations

import base64
import binascii

from bridgehead.client import ApiClient
from bridgehead.client.errors import ClientError, Forbidden, NotFound
from bridgehead.objects.kinds import SECRETS

_TYPE = "kubernetes.io/basic-auth"
_KEY = "password"


async def read_password(client: ApiClient, namespace: str, name: str) -> str:
    """Return the password in a Secret of type kubernetes.io/basic-auth. Raises LookupError with the reason."""
    try:
        secret = await client.get(SECRETS, name, namespace)
    except NotFound:
        raise LookupError(f"Secret {namespace}/{name} with the password does not exist") from None
    except Forbidden:  # the Role went with a namespace that was deleted (decision 49)
        raise LookupError(
            f"this speaker may not read Secret {namespace}/{name} with the password: its Role is gone; upgrade the"
            " chart's release (a lab: down and up)"
        ) from None
    except ClientError as error:
        raise LookupError(f"cannot read Secret {namespace}/{name} with the password: {error}") from error
    if secret.type != _TYPE:
        raise LookupError(f"Secret {namespace}/{name} with the password is of type {secret.type}, not {_TYPE}")
    try:
        return base64.b64decode(secret.data[_KEY], validate=True).decode()
    except KeyError:
        raise LookupError(f'Secret {namespace}/{name} has no key "{_KEY}"') from None
    except (binascii.Error, UnicodeDecodeError):
        raise LookupError(f'Secret {namespace}/{name}: its key "{_KEY}" is no text') from None
