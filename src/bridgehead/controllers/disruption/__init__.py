"""The disruption controller: keeps the status of PodDisruptionBudgets, by which the API server decides on evictions.

`budgets` is the controller, `owners` finds how many pods their owners want, `budget_status` computes the status.
"""
