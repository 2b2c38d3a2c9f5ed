"""Controllers of ServiceAccounts: the account `default` of each namespace, and Secrets that contain tokens."""
