"""From a body to an object, or to what is wrong with it.

`decoding` reads a whole object: `serialization` has JSON and YAML, `protobuf` what Go clients send, and `schema` says
what an object must look like. `patching` makes a PATCH a change of what is stored, by the three ways in `patch`.
"""
