"""The rule language in PromQL: compiled, queried over HTTP, exported for rulers.

Enters: checked syntax trees. Leaves: PromQL text, verdicts of a Prometheus-like server, rule files.
docs/decisions/0040-promql.md holds what PromQL cannot express and what is done about it.
"""
