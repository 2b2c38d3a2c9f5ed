"""Authorization by the roles and bindings in the store.

rbac_policy    roles and bindings by subject; the decision about a request
stored_policy  the policy of a store, which follows the store's changes
"""
