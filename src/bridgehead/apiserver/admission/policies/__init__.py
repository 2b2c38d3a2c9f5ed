"""ValidatingAdmissionPolicy and MutatingAdmissionPolicy: rules of users, as expressions.

validating, mutating    the two plug-ins
definitions             policies and bindings as their objects describe them
sources                 the stored policies with their bindings, and those that may be for a request
parameters              the objects that a binding names as parameters
compiled                the expressions of a policy, and their evaluation
patches                 changes of an object: apply configurations, JSON patches
typechecking            warnings about expressions that contradict the schemas of a policy's resources

`compiled`, `patches` and `typechecking` import CEL; they are imported when the first policy exists.
Source: apiserver/pkg/admission/plugin/policy.
"""
