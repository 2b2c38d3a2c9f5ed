"""Tokens of other issuers (OpenID Connect), by an AuthenticationConfiguration.

forms               the file's form
configuration       its parsing and validation
mapping             from claims to users, by claims or CEL expressions
keys                the issuers' keys, by discovery over HTTPS
token_verification  verification of tokens; the configuration in force

The package is imported when the server has such a file.
Source: Kubernetes apiserver/pkg/apis/apiserver, apiserver/plugin/pkg/authenticator/token/oidc.
"""
