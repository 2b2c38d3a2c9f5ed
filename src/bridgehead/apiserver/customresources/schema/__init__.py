"""Structural schemas of custom resources: one `Structural` for each version of a definition, compiled once.

structural      the tree of a schema; its methods are what other packages use
pruning         an object without unknown fields, and their paths
defaulting      default values
embedded        apiVersion, kind and metadata of embedded objects
values          checks of values: types, lengths, alternatives, required fields; `numbers`, `patterns` (RE2) and
                `formats` are parts of it
lists           uniqueness in sets and in lists with keys
ratcheting      which old value belongs to a new one, and whether it changed
validation      all of these checks, in Kubernetes' order
shape           the object as decoding and field management see it
publishing      its definition in OpenAPI 2 and 3
errors, paths   texts of errors, and paths in them
"""

from .structural import Structural

__all__ = ["Structural"]
