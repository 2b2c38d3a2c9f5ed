"""Suites of client libraries, from their own source distributions, against a lab: `make clients`, docs/clients.md."""
