"""Aggregated APIs: groups and versions that servers behind a Service serve, registered as APIServices (decision 30).

aggregator      the controller: keeps routes and conditions, answers requests for aggregated APIs
local_apis      APIServices for the APIs that this server serves itself
availability    whether an aggregated API answers
documents       its discovery and OpenAPI documents, merged into this server's
transport       TLS and the headers with which this server names its users
authentication  what the servers need to verify these headers: ConfigMap extension-apiserver-authentication
services        an APIService and the endpoints of its Service as values
"""
