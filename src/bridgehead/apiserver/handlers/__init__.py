"""Handlers: answers to authorized requests.

dispatch                       choice of the handler by path and verb; calls `objects` and `subresources`
objects                        get, list, watch and writes of the resources in the table
apply                          server-side apply
write_options                  options of writes
writes                         the `Write` of a request, and its attributes for admission
rendering                      answers in the form that the Accept header asks for
event_forms                    forms of a watch's events
protobuf_messages              objects and events in protobuf
rendered_forms                 objects in other forms than the stored one, shared by watches
tables                         rows for `kubectl get`
stored_forms                   conversion of objects that are stored in the form of another resource
subresources                   scale, binding, eviction, finalize
evictions, disruption_budgets  evictions of pods, and the budgets that refuse them
token_requests                 the subresource token of service accounts
scale_views                    the Scale of an object
non_resource_urls              pages at other URLs, and which methods they accept; calls the ones below
issuer                         discovery of the issuer of service account tokens
access_reviews                 access reviews, token reviews
discovery, openapi, openapi_enums, openapi_protobuf, health, metrics
                               documents about the server itself; `external` has those of aggregated APIs
"""
