"""Aggregated APIs: groups and versions that servers behind a Service serve, registered as APIServices (decision 30).

aggregator                the controller: keeps routes and conditions, answers requests for aggregated APIs
local_apis                APIServices for the APIs that this server serves itself
api_availability          whether an aggregated API answers
server_documents          its discovery and OpenAPI documents, merged into this server's
fetching                  a GET of a small document from such a server
server_transport          TLS and the headers with which this server names its users
extension_authentication  what the servers need to verify these headers: ConfigMap extension-apiserver-authentication
api_service_status        an APIService and the endpoints of its Service as values
"""
