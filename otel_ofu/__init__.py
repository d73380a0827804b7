"""Counters in, OFU out; and when it is low, why."""

__version__ = "0.1.0"
