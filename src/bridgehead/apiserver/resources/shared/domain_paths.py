"""Validation of domain-prefixed paths, such as `example.com/ingress-controller`.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `IsDomainPrefixedPath`.
"""

from __future__ import annotations

import re

from bridgehead.apiserver.resource import FieldError
from bridgehead.objects.names import check_dns1123_subdomain

from . import field

_HTTP_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"


def validate_domain_path(path: str, text: str) -> list[FieldError]:
    if not text:
        return [field.required(path)]
    host, _, rest = text.partition("/")
    if not host or not rest:
        return [field.invalid(path, text, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    errors = field.invalid_for(path, host, check_dns1123_subdomain(host))
    if not re.fullmatch(_HTTP_PATH, rest):
        errors.append(field.invalid(path, rest, f"Invalid path (regex used for validation is '{_HTTP_PATH}')"))
    return errors
