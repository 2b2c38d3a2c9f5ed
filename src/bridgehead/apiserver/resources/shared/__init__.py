"""Rules and columns that several resources share.

field                 builds the errors of a validation
metadata_validation   `metadata`, labels, annotations, label selectors
address_rules, port_rules, keys, quantity_rules, config_data, resource_names, resource_amounts, pem
                      values of one type
conditions            conditions in the status of newer kinds
columns               cells of `kubectl get` tables, field selectors
"""
