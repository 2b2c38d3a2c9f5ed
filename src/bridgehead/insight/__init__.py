"""Diagnosis of a cluster from the objects of all parts. Read-only."""
