"""Authorization by the roles and bindings in the store.

rbac_authorizer  roles and bindings by subject; the decision about a request
policy_cache     the policy of a store, which follows the store's changes
"""
