"""The form of an AuthenticationConfiguration (apiserver.config.k8s.io/v1).

Pure: no I/O, no clock, no randomness. Source: Kubernetes apiserver/pkg/apis/apiserver/types.go.
"""

from __future__ import annotations

import msgspec


class _Part(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    pass


class Issuer(_Part, frozen=True):
    """`certificate_authority` is PEM; "": the system's authorities."""

    url: str = ""
    discovery_url: str = msgspec.field(name="discoveryURL", default="")
    certificate_authority: str = ""
    audiences: tuple[str, ...] = ()
    audience_match_policy: str = ""
    egress_selector_type: str = ""


class PrefixedClaim(_Part, frozen=True):
    claim: str = ""
    prefix: str | None = None
    expression: str = ""


class ExtraMapping(_Part, frozen=True):
    key: str = ""
    value_expression: str = ""


class ClaimMappings(_Part, frozen=True):
    username: PrefixedClaim = PrefixedClaim()
    groups: PrefixedClaim = PrefixedClaim()
    uid: PrefixedClaim = PrefixedClaim()
    extra: tuple[ExtraMapping, ...] = ()


class ClaimRule(_Part, frozen=True):
    claim: str = ""
    required_value: str = ""
    expression: str = ""
    message: str = ""


class UserRule(_Part, frozen=True):
    expression: str = ""
    message: str = ""


class JwtAuthenticator(_Part, frozen=True):
    issuer: Issuer = Issuer()
    claim_validation_rules: tuple[ClaimRule, ...] = ()
    claim_mappings: ClaimMappings = ClaimMappings()
    user_validation_rules: tuple[UserRule, ...] = ()


class AnonymousCondition(_Part, frozen=True):
    path: str


class Anonymous(_Part, frozen=True):
    """Whether requests without credentials are answered: all, or those for the paths of `conditions`."""

    enabled: bool = False
    conditions: tuple[AnonymousCondition, ...] = ()

    def allows(self, path: str) -> bool:
        return self.enabled and (not self.conditions or any(one.path == path for one in self.conditions))


class Configuration(_Part, frozen=True):
    api_version: str = ""
    kind: str = ""
    jwt: tuple[JwtAuthenticator, ...] = ()
    anonymous: Anonymous | None = None
