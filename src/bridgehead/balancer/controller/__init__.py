"""The controller: gives Services their addresses and reports the state of pools and of the configuration."""
