"""Request bodies: decoding, schema checks, patches.

decoding         a body to an object of a resource
kinds            errors of kinds and versions that do not fit the resource
serialization    JSON and YAML
duplicates       fields that a body has twice, and texts about them
protobuf/        protobuf, which Go clients send and ask for
definitions      the API's definitions, read from their file
schema           the `Shape` of each kind, compiled from the definitions
go_structs       what the definitions lack: facts about Go's structs, for the ownership of fields
conforming       check of a value against its shape
nulls            fields that are null when they have no value
patch_requests   a PATCH request to a function that changes an object
patch_decoding   the patch itself: its decoding, and what may be wrong with it
patch            the three kinds of patches: `json_patches` has two (JSON patch, JSON merge patch),
                 `strategic_patches` the third, with `element_order` for lists
apply_requests   the configuration of a server-side apply
collection       rendering of lists
"""
