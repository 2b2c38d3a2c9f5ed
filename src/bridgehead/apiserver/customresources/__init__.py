"""CustomResourceDefinitions, and the resources that they define.

    definitions                facts about a CustomResourceDefinition: versions, names, conditions
    customresourcedefinitions  the kind CustomResourceDefinition: its entry in the table, defaults, fields of the server
    definition_validation      its validation; conversion_validation, paths_validation are parts of it
    approval                   the policy for groups of the Kubernetes community
    accepted_names             names that are accepted, and conditions
    jsonpath                   the JSONPath of printer columns, scales and selectable fields
    selectable_fields          fields that field selectors may name
    printer_columns            columns of `kubectl get`
    strategy                   the hooks of a custom resource
    serving                    a definition -> entries of the table, one for each served version
    conversion                 stored objects of one version -> objects of another one, without or with a webhook
    conversion_reviews         ConversionReview: requests, and the checks of answers
    converted_store            a store that shows converted objects
    definition_controller      follows the definitions: names, conditions, table
    removal                    deletion of a definition and of its instances
    schema/                    structural schemas: validation, pruning, defaulting

The server follows its own store: a definition becomes part of the table when its names are accepted, and Established
when it is served. All versions of a custom resource are stored as objects of one version, the storage version.
Source: k8s.io/apiextensions-apiserver.
"""
