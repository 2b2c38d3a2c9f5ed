"""Request bodies: decoding, schema checks, patches.

decoding         a body to an object of a resource
serialization    JSON and YAML
duplicates       fields that a body has twice, and texts about them
protobuf/        protobuf, which Go clients send and ask for
definitions      the API's definitions, read from their file
schema           the `Shape` of each kind, compiled from the definitions
nulls            fields that are null when they have no value
patch_requests   a PATCH request to a function that changes an object
patch            JSON patch, JSON merge patch, strategic merge patch
collection       rendering of lists
"""
