"""Mapping of a verified token's claims to a user, by the names of claims or by CEL expressions.

Pure: no I/O, no clock, no randomness.
Source: Kubernetes apiserver/pkg/authentication/cel, apiserver/plugin/pkg/authenticator/token/oidc/oidc.go.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from bridgehead.apiserver.cel import BOOL, DYN, STRING, Budget, BudgetExceeded, Environment, EvaluationError, Program
from bridgehead.apiserver.cel import CompileError as CompileError
from bridgehead.apiserver.cel.types import Field, list_of, map_of, struct
from bridgehead.apiserver.http.user import AUTHENTICATED, CREDENTIAL_ID, InvalidCredentials, User

if TYPE_CHECKING:
    from .forms import JwtAuthenticator, PrefixedClaim

Claims = Mapping[str, Any]

_USER = struct(
    "kubernetes.UserInfo",
    {
        "username": Field("username", STRING),
        "uid": Field("uid", STRING),
        "groups": Field("groups", list_of(STRING)),
        "extra": Field("extra", map_of(STRING, list_of(STRING))),
    },
)


@lru_cache(maxsize=1)
def _of_claims() -> Environment:
    return Environment({"claims": map_of(STRING, DYN)})


@lru_cache(maxsize=1)
def _of_user() -> Environment:
    return Environment({"user": _USER})


def compile_claims(expression: str, *, is_rule: bool = False) -> Program:
    """Compile an expression about `claims`; a rule has a boolean result. Raises CompileError."""
    return _of_claims().compile(expression, result=BOOL if is_rule else None)


def compile_user(expression: str, *, is_rule: bool = True) -> Program:
    """Compile an expression about `user`. Raises CompileError."""
    return _of_user().compile(expression, result=BOOL if is_rule else None)


class Mapper:
    """The rules and mappings of one issuer, compiled."""

    def __init__(self, authenticator: JwtAuthenticator) -> None:
        """The authenticator is valid."""
        mappings = authenticator.claim_mappings
        self._claim_rules = [
            (rule, compile_claims(rule.expression, is_rule=True) if rule.expression else None)
            for rule in authenticator.claim_validation_rules
        ]
        self._user_rules = [(rule, compile_user(rule.expression)) for rule in authenticator.user_validation_rules]
        self._username = _reader(mappings.username)
        self._groups = _reader(mappings.groups)
        self._uid = _reader(mappings.uid)
        self._extra = [(one.key, compile_claims(one.value_expression)) for one in mappings.extra]
        self._checks_email = mappings.username.claim == "email"

    def user(self, claims: Claims) -> User:
        """Return the user. Raises `InvalidCredentials`."""
        self._check_claims(claims)
        (name,) = _strings("username", self._username(claims)) or ("",)
        if not name:
            raise InvalidCredentials("oidc: the username is empty")
        if self._checks_email and claims.get("email_verified", True) is not True:
            raise InvalidCredentials("oidc: email not verified")
        groups = _strings("groups", self._groups(claims), is_list=True)
        uid = "".join(_strings("uid", self._uid(claims)))
        extra: dict[str, tuple[str, ...]] = {}
        for key, program in self._extra:
            values = tuple(
                value for value in _strings(key, _evaluate(program, {"claims": claims}), is_list=True) if value
            )
            if values:
                extra[key] = values
        if isinstance(claims.get("jti"), str) and claims["jti"]:
            extra[CREDENTIAL_ID] = (f"JTI={claims['jti']}",)
        user = User(name, groups, uid, extra)
        self._check_user(user)
        return User(name, (*(group for group in groups if group != AUTHENTICATED), AUTHENTICATED), uid, extra)

    def _check_claims(self, claims: Claims) -> None:
        for rule, program in self._claim_rules:
            if program is None:
                if rule.claim not in claims:
                    raise InvalidCredentials(f"oidc: required claim {rule.claim} not present in ID token")
                if claims[rule.claim] != rule.required_value:
                    shown = json.dumps(rule.required_value)
                    raise InvalidCredentials(f"oidc: required claim {rule.claim} value does not match: want {shown}")
            elif _evaluate(program, {"claims": claims}) is not True:
                raise InvalidCredentials(f"oidc: {_failure(rule.expression, rule.message)}")

    def _check_user(self, user: User) -> None:
        shown = {
            "username": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra.items()},
        }
        for rule, program in self._user_rules:
            if _evaluate(program, {"user": shown}) is not True:
                raise InvalidCredentials(f"oidc: {_failure(rule.expression, rule.message)}")


def _failure(expression: str, message: str) -> str:
    text = f"validation expression '{expression}' failed"
    return f"{text}: {message}" if message else text


def _reader(mapping: PrefixedClaim) -> Callable[[Claims], Any]:
    """Return the function that reads a mapping's value: text, a list of texts, or None."""
    if mapping.expression:
        program = compile_claims(mapping.expression)
        return lambda claims: _evaluate(program, {"claims": claims})
    if not mapping.claim:
        return lambda claims: None
    prefix = mapping.prefix or ""

    def read(claims: Claims) -> Any:
        value = claims.get(mapping.claim)
        if isinstance(value, str):
            return prefix + value
        if isinstance(value, list):
            return [prefix + one if isinstance(one, str) else one for one in value]
        return value

    return read


def _evaluate(program: Program, variables: Mapping[str, Any]) -> Any:
    try:
        return program.evaluate(variables, Budget())
    except (EvaluationError, BudgetExceeded) as error:
        raise InvalidCredentials(f"oidc: error evaluating an expression: {error}") from None


def _strings(what: str, value: Any, *, is_list: bool = False) -> tuple[str, ...]:
    """Return text or texts as a tuple. Raises `InvalidCredentials` for other values."""
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,) if value else ()
    if is_list and isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value):
        return tuple(value)
    kind = "a string or a list of strings" if is_list else "a string"
    raise InvalidCredentials(f"oidc: {what} is not {kind}")
