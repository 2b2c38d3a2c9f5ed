"""Rules and columns that several resources share.

metadata_validation   `metadata`, labels, annotations, label selectors
generated_names       random names of objects and volumes
address_rules, port_rules, keys, quantity_rules, config_data, resource_names, resource_amounts, pem,
  int_or_percent, domain_paths
                      values of one type
claim_validation, external_volumes, storage_rules
                      claims, volumes outside of the cluster, other kinds of storage
webhook_validation    the client configuration of webhooks
node_labels, pod_names  warnings about labels and names
conditions            conditions in the status of newer kinds
columns               cells of `kubectl get` tables, field selectors
"""
