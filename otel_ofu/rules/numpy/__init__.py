"""The embedded engine: conditions judged over the store with NumPy."""
