"""Handlers: answers to authorized requests.

objects          get, list, watch and writes of the resources in the table
options          options of writes
tables           rows for `kubectl get`
stored_forms     conversion of objects that are stored in the form of another resource
subresources     scale, binding, eviction, token, finalize
scale_views      the Scale of an object
reviews          access reviews, token reviews
discovery, openapi, openapi_protobuf, health, metrics
                 documents about the server itself
"""
