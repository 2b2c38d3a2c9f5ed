"""Handlers: answers to authorized requests.

objects          get, list, watch and writes of the resources in the table
options          options of writes
rendering        answers in the form that the Accept header asks for
event_forms      forms of a watch's events
messages         objects and events in protobuf
rendered         objects in other forms than the stored one, shared by watches
tables           rows for `kubectl get`
stored_forms     conversion of objects that are stored in the form of another resource
subresources     scale, binding, eviction, finalize
token_requests   the subresource token of service accounts
scale_views      the Scale of an object
non_resource_urls  pages at other URLs, and which methods they accept; calls the ones below
issuer           discovery of the issuer of service account tokens
reviews          access reviews, token reviews
discovery, openapi, openapi_enums, openapi_protobuf, health, metrics
                 documents about the server itself
"""
