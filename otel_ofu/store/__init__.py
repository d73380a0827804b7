"""Recent history of every entity, for rules."""
