"""`bridgehead doctor`: one verdict and one fix for each broken Service, the first cause first.

catalogue       all causes, in order of precedence, each with an explanation and an example
diagnosis       facts -> `Diagnosis`; the tables of checks
reading         gathers the facts from the API and from pods
report          a diagnosis as text and as JSON
subjects        the facts, and a Service with what belongs to it
node_reading    gathers the facts from the kernels of nodes, and queries the DNS
kernels         the nodes' kernels beside the rules that they should have
filter_rules    rules of packet filters, and the fate of a packet
near_names      names and labels with a typing error
networkpolicy_rules  NetworkPolicies, parsed and evaluated

Families of causes, one module each. A check is a function of the facts, and of a Service for those in
`SERVICE_CHECKS`, and yields findings:

service_lookup  no such Service or port
selectors       no pods: the selector, or neither selector nor Endpoints
pods            pods that are not ready, and why
ports           target ports that nobody has, or on which nothing listens
slices          EndpointSlices and Endpoints
policies        traffic policies, hints, source ranges, affinity
external_names  Services of type ExternalName
addresses       cluster IPs, external IPs, Services of another proxy
load_balancers  Services that wait for an address, or are not announced
headless        headless Services and StatefulSets
proxies         the nodes' service proxies
node_rules      rules of nodes that are altered, missing, or of two proxies
packet_filters  rules of other programs that drop the packets of Services
connections     connections to endpoints that are gone
node_networks   forwarding, routes, MTU, sysctls and addresses of nodes
dns_answers     queries that the DNS does not answer, resolv.conf of pods
names           the cluster's DNS and the settings of pods
networkpolicies NetworkPolicies that forbid connections
ingresses       Ingresses
nodes           nodes, and addresses that two of them have
certificates    certificates near their end
"""
