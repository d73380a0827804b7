"""Rules: the language and its evaluation over the store."""
