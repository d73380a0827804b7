"""The composition root: builds, starts, and stops. Nothing below knows the config."""
