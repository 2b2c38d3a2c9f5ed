"""Operations on stored objects, independent of HTTP.

registry            create, update, delete: admission, commit, retries
attempts            one attempt of a write: hooks of the resource, validation
request_checks      names and preconditions of requests
metadata            the fields of `metadata` that the server sets
deletion            finalizers, grace periods
lists, watching     lists with their pages, watches
list_options        options of lists and watches that exclude each other
continue_tokens     tokens for the next page of a list
service_cidrs       ranges of ClusterIPs: allocation, conditions, draining
ip_addresses        restoration of the IPAddress objects of Services' addresses
legacy_tokens       dates of the last uses of tokens in Secrets
expiry              deletion of old Events
default_roles       creation of the default roles and bindings
policy_status       the status of admission policies
quota_usage         status of ResourceQuotas
aggregated_roles    rules of aggregated ClusterRoles
"""
