"""Compilation of the expressions of webhooks and policies: their variables and their errors.

This module imports CEL; it is imported when the first expression is compiled.
Pure: no I/O, no clock, no randomness. Source: apiserver/pkg/admission/plugin/cel/compile.go.
"""

from __future__ import annotations

from functools import cache, lru_cache

from bridgehead.apiserver.cel import BOOL, DYN, STRING, CompileError, Environment, Program, Type
from bridgehead.apiserver.cel.library.authorization import AUTHORIZER, RESOURCE_CHECK
from bridgehead.apiserver.cel.types import Field, list_of, map_of, struct

_MAX_PROGRAMS = 1024


def _struct(name: str, /, **fields: Type) -> Type:
    return struct(f"kubernetes.{name}", {json_name: Field(json_name, type_) for json_name, type_ in fields.items()})


@cache
def request_type() -> Type:
    """Return the type of the variable `request`: an AdmissionRequest without uid and objects."""
    kind = _struct("GroupVersionKind", group=STRING, version=STRING, kind=STRING)
    resource = _struct("GroupVersionResource", group=STRING, version=STRING, resource=STRING)
    extra = map_of(STRING, list_of(STRING))
    user = _struct("UserInfo", username=STRING, uid=STRING, groups=list_of(STRING), extra=extra)
    return _struct(
        "AdmissionRequest",
        kind=kind,
        resource=resource,
        subResource=STRING,
        requestKind=kind,
        requestResource=resource,
        requestSubResource=STRING,
        name=STRING,
        namespace=STRING,
        operation=STRING,
        userInfo=user,
        dryRun=BOOL,
        options=DYN,
    )


@cache
def admission_environment() -> Environment:
    """Return the environment with the variables that all expressions of admission have."""
    return Environment(
        {
            "object": DYN,
            "oldObject": DYN,
            "request": request_type(),
            "authorizer": AUTHORIZER,
            "authorizer.requestResource": RESOURCE_CHECK,
        }
    )


@lru_cache(maxsize=_MAX_PROGRAMS)
def compile_condition(expression: str) -> Program:
    """Compile a match condition. Raises `CompileError`."""
    return admission_environment().compile(expression, result=BOOL)


def condition_error(expression: str) -> str:
    """Return why a match condition does not compile, or ""."""
    try:
        compile_condition(expression)
    except CompileError as error:
        return str(error)
    return ""
