"""Request bodies: decoding, schema checks, patches.

decoding         a body to an object of a resource
serialization    JSON and YAML
duplicates       fields that a body has twice, and texts about them
protobuf/        protobuf, which Go clients send and ask for
schema           types of fields, unknown fields, merge keys of lists
patch_requests   a PATCH request to a function that changes an object
patch            JSON patch, JSON merge patch, strategic merge patch
collection       rendering of lists
"""
