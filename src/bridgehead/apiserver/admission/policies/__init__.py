"""ValidatingAdmissionPolicy and MutatingAdmissionPolicy: rules of users, as expressions.

policy_plugins        the plug-ins
validating, mutating  the evaluation of the policies of a request
rights                the rights that the writer of a policy needs
policy_objects        policies and bindings as their objects describe them
policy_sources        the stored policies with their bindings, and those that may be for a request
invocations           the evaluations that a request needs
parameters            the objects that a binding names as parameters
compiled              the expressions of a policy, and their evaluation
patches               changes of an object: apply configurations, JSON patches
typechecking          warnings about expressions that contradict the schemas of a policy's resources

All modules but `policy_plugins` are imported when the first policy exists; they import CEL.
Source: apiserver/pkg/admission/plugin/policy.
"""
