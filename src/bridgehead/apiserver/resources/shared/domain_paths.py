"""Validation of domain-prefixed paths, such as `example.com/ingress-controller`.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `IsDomainPrefixedPath`.
"""

from __future__ import annotations

import re

from bridgehead.apiserver.field import Field
from bridgehead.objects.names import check_dns1123_subdomain

_HTTP_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"


def validate_domain_path(text: Field) -> None:
    if not text.must_be_set():
        return
    host, _, path = text.value.partition("/")
    if not host or not path:
        text.invalid('must be a domain-prefixed path (such as "acme.io/foo")')
        return
    text.showing(host).must_pass(check_dns1123_subdomain)
    if not re.fullmatch(_HTTP_PATH, path):
        text.showing(path).invalid(f"Invalid path (regex used for validation is '{_HTTP_PATH}')")
