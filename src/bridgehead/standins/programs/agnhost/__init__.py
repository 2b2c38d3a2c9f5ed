"""The stand-in for agnhost, the image of Kubernetes' end-to-end tests. `commands` has its subcommands.

Source of what they answer and print: kubernetes/kubernetes test/images/agnhost.
"""
