"""Libraries of functions, one module for each topic; `STANDARD` are those of every expression in Kubernetes 1.36.

operators, conversions, times, optionals    the language's own
strings, formatting, regex, lists           strings, `format`, regular expressions, lists and sets
urls, quantities, networks, versions        Kubernetes' types; `address_errors` has texts of `networks`
named_formats, authorization                Kubernetes' formats; authorization checks
patches                                     JSON patches, for mutating policies only
"""

from bridgehead.apiserver.cel.declarations import merge

from . import (
    authorization,
    conversions,
    lists,
    named_formats,
    networks,
    operators,
    optionals,
    patches,
    quantities,
    regex,
    strings,
    times,
    urls,
    versions,
)

STANDARD = merge(
    module.FUNCTIONS
    for module in (
        operators,
        conversions,
        times,
        optionals,
        strings,
        regex,
        lists,
        urls,
        quantities,
        networks,
        versions,
        named_formats,
        authorization,
    )
)
MUTATING = merge((STANDARD, patches.FUNCTIONS))
