"""The steps of a write of one resource, in the registry's order, without a server."""

from __future__ import annotations

import copy
from typing import Any

import yaml
from yaml import CSafeLoader as Loader

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import Resource, errors_of
from bridgehead.apiserver.resources import build_table

JsonObject = dict[str, Any]


def table(*service_cidrs: str) -> dict[str, Resource]:
    """Return the resources by id; of several versions the one that is stored."""
    cidrs = service_cidrs or ("10.96.0.0/12",)
    resources = build_table(service_cidrs=cidrs, node_port_range=(30000, 32767))
    return {r.id: r for r in resources if r.stored.id != r.id or r.stored is r}


def texts(errors: list[FieldError]) -> list[str]:
    return [f"{error.field}: {error.message}" for error in errors]


def from_yaml(text: str) -> Any:
    return yaml.load(text, Loader) or {}


class Refused(Exception):
    def __init__(self, errors: list[FieldError]) -> None:
        super().__init__("; ".join(texts(errors)))
        self.errors = errors


class Steps:
    """Objects of one resource; claims are exclusive, as in a store."""

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self._strategy = resource.strategy if resource.stored_form is None else resource.stored_form.own_rules
        self.claimed: set[str] = set()

    def create(self, obj: JsonObject) -> JsonObject:
        """Carry out the steps of a create. Raises Refused."""
        obj = copy.deepcopy(obj)
        strategy = self._strategy
        strategy.default(obj)
        strategy.prepare_create(obj)
        errors = strategy.allocate(obj, None, self.claimed.__contains__)
        errors = errors or errors_of(strategy.validate, obj) + errors_of(strategy.validate_create, obj)
        if errors:
            raise Refused(errors)
        claims = strategy.claims(obj)
        if claims & self.claimed:
            raise AssertionError(f"chose what was taken: {claims & self.claimed}")
        self.claimed |= claims
        return obj

    def update(self, old: JsonObject, obj: JsonObject, subresource: str = "") -> JsonObject:
        """Carry out the steps of an update; check that they do not change `old`. Raises Refused."""
        obj, before = copy.deepcopy(obj), copy.deepcopy(old)
        strategy = self._strategy
        strategy.default(obj)
        strategy.prepare_update(obj, old, subresource)
        errors = strategy.allocate(obj, old, self.claimed.__contains__)
        errors = errors or [
            *errors_of(strategy.validate, obj),
            *errors_of(strategy.validate_update, obj, old, subresource),
        ]
        if old != before:
            raise AssertionError("an update changed what was stored")
        if errors:
            raise Refused(errors)
        self.claimed = (self.claimed - strategy.claims(old)) | strategy.claims(obj)
        return obj

    def refusal(self, obj: JsonObject) -> list[str]:
        """Return the reasons why `obj` can't be created; [] if it can."""
        before = set(self.claimed)
        try:
            self.create(obj)
        except Refused as refused:
            return texts(refused.errors)
        finally:
            self.claimed = before
        return []

    def update_refusal(self, old: JsonObject, obj: JsonObject, subresource: str = "") -> list[str]:
        """Return the reasons why `old` can't be updated to `obj`; [] if it can."""
        before = set(self.claimed)
        try:
            self.update(old, obj, subresource)
        except Refused as refused:
            return texts(refused.errors)
        finally:
            self.claimed = before
        return []
