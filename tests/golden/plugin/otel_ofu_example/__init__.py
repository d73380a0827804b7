"""An example of a package with parts for otel-ofu: docs/plugins.md explains it."""
