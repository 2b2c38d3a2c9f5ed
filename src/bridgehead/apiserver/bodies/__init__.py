"""Request bodies: decoding, schema checks, patches.

decoding         a body to an object of a resource
serialization    JSON and YAML
duplicates       fields that a body has twice, and texts about them
protobuf/        protobuf, which Go clients send and ask for
definitions      the API's definitions, read from their file
schema           the shape of each kind, with merge keys of lists
nulls            fields that are null when they have no value
shapes           types of values: conformity, unknown fields, errors with the texts of Go's decoder
patch_requests   a PATCH request to a function that changes an object
patch            JSON patch, JSON merge patch, strategic merge patch
collection       rendering of lists
"""
