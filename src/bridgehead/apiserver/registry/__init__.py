"""Operations on stored objects, independent of HTTP.

registry            create, update, delete: admission, hooks of the resource, validation, commit
admission           rules that depend on other objects: namespaces, service accounts, addresses
class_admission     default classes, priorities of pods, overhead of runtimes
node_addresses      refusal of load balancer addresses that belong to nodes or to the API server
metadata            the fields of `metadata` that the server sets
deletion            finalizers, grace periods
lists, watching     lists with their pages, watches
service_cidrs       ranges of ClusterIPs: allocation, conditions, draining
ip_addresses        restoration of the IPAddress objects of Services' addresses
expiry              deletion of old Events
default_roles       creation of the default roles and bindings
aggregated_roles    rules of aggregated ClusterRoles
"""
