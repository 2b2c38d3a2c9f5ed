"""Rules and columns that several resources share.

field                 builds the errors of a validation
metadata_validation   `metadata`, labels, annotations, label selectors
addresses, ports, keys, quantities, config_data
                      values of one type
columns               cells of `kubectl get` tables, field selectors
"""
