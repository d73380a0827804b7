"""The network: one HTTP client, one HTTP server, TLS, tokens and deadlines."""
