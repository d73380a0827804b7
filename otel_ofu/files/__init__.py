"""Files of others and our own: YAML with positions, SQLite tables, /proc."""
