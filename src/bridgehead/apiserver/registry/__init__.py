"""Operations on stored objects, independent of HTTP.

write             the value that carries one write
registry          create, update, apply, delete: the order of a write's steps, commit, retries
write_steps       the steps of one attempt of a write: defaults, managers, hooks of the resource, validation
write_admission   admission of one write
managed_fields    managedFields of the objects of all resources
request_checks    names and preconditions of requests
owner_references  duplicate owner references
metadata          the fields of `metadata` that the server sets
facts             labels, selectable fields and claims of an object, for the store
deletion          finalizers, grace periods
lists, watching   lists with their pages, watches
list_options      options of lists and watches that exclude each other
continue_tokens   tokens for the next page of a list
freshness         reads of a state that is at least as new as a resourceVersion
service_cidrs     ranges of ClusterIPs: allocation, conditions, draining
ip_addresses      restoration of the IPAddress objects of Services' addresses
legacy_tokens     dates of the last uses of tokens in Secrets
expiry            deletion of old Events
ensuring          creation of objects that the server itself needs
default_roles     creation of the default roles and bindings
policy_status     the status of admission policies
quota_usage       status of ResourceQuotas
aggregated_roles  rules of aggregated ClusterRoles
"""
