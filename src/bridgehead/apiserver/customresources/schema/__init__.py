"""Structural schemas of custom resources: one `Structural` for each version of a definition, compiled once.

structural             what a schema does with objects; the object as decoding and field management see it
node                   the tree of a schema
pruning                an object without unknown fields, and their paths
defaulting             default values
embedded               apiVersion, kind and metadata of embedded objects
values                 checks of values: types, lengths, alternatives, required fields; `alternatives`, `numbers`,
                       `patterns` (RE2) and `formats` are parts of it
lists                  uniqueness in sets and in lists with keys
ratcheting             which old value belongs to a new one, and whether it changed
schema_validation      validation of the schema itself
structural_validation  whether the schema is structural
list_type_validation   extensions by which lists and maps are merged
default_validation     default values that a schema declares
field_paths            paths to fields of a schema
rules                  CEL rules of objects; `rule_programs` compiles them
rule_validation        validation of declared CEL rules
publishing             definitions in OpenAPI 2 and 3
errors, paths          texts of errors, and paths in them

The package is imported when the first CustomResourceDefinition is served.
"""

from .field_paths import BadFieldPath, resolve
from .numbers import stored
from .schema_validation import format_warnings, validate_schema
from .structural import Structural

__all__ = ["BadFieldPath", "Structural", "format_warnings", "resolve", "stored", "validate_schema"]
