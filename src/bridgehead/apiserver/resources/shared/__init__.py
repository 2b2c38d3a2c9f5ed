"""Rules and columns that several resources share.

field                 builds the errors of a validation
metadata_validation   `metadata`, labels, annotations, label selectors
addresses, ports, keys, quantities, config_data, resource_names, resource_amounts, pem
                      values of one type
conditions            conditions in the status of newer kinds
columns               cells of `kubectl get` tables, field selectors
"""
