"""Forking: the zygote, the jobs that it passes on, and what a forked process does until its program runs."""
