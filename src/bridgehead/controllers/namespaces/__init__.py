"""The controller that empties deleted namespaces: `namespace_controller`, with `namespace_conditions`."""
