"""Admission: plug-ins that check and change the object of a write before it is stored.

attributes                  what a plug-in knows about a request
chain                       the order of the plug-ins, and the calls
plugins                     the chain of this server
plugin_dependencies         the parts of the server that plug-ins need
enabled_plugins             the plug-ins that `--enable-admission-plugins` may name
namespace_lifecycle         NamespaceLifecycle
service_accounts            ServiceAccount
node_restriction            NodeRestriction; `token_audiences`: the tokens of pods that a node may request
limit_ranger                LimitRanger
resource_quota              ResourceQuota
classes                     Priority, DefaultStorageClass, RuntimeClass, DefaultIngressClass
pod_topology                PodTopologyLabels
volumes                     protection and expansion of claims and volumes, times of their phases
device_claims               rights to what ResourceClaims grant
external_ips                DenyServiceExternalIPs
podsecurity/                PodSecurity
node_addresses              refusal of load balancer addresses that belong to nodes or to the API server
matching, equivalent_forms  rules and selectors of webhooks and policies; objects in the versions of the rules
candidates                  the webhooks and policies with a rule for a request
expression_variables        variables of expressions      (both are imported with the first request that has one)
evaluation                  expressions of webhooks and policies
webhooks/                   MutatingAdmissionWebhook, ValidatingAdmissionWebhook
certificate_requests        CertificateApproval, CertificateSigning, CertificateSubjectRestriction; users of requests
policies/                   MutatingAdmissionPolicy, ValidatingAdmissionPolicy
escalation                  refusal of roles and bindings that give more rights than their writer has
connect_requests            the objects of exec, attach, portforward and proxy

A write passes the chain in this order: defaults and managers of fields, `mutate` of all plug-ins, the resource's own
hooks and its validation, `validate` of all plug-ins, the store. After a lost race, it begins again with the new state.
Writes of the server itself do not pass the chain.
Source: apiserver/pkg/admission, apiserver/pkg/endpoints/handlers, pkg/kubeapiserver/options/plugins.go.
"""
