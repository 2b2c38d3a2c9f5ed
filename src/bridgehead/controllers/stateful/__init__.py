"""The StatefulSet controller.

`statefulset_controller` is the controller; `stateful_plan` decides about pods, `identity` about what is in them,
`retention` about the owners of claims, `stateful_status` about the status; `pods_and_claims` writes pods and claims.
"""
