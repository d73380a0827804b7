"""The load of a node: processors, pressure, memory, disks, networks, the ranks themselves.

Enters: /proc and /sys. Leaves: one `Observation` of the node for each read.
"""

from otel_ofu.evidence.host.reader import HostPaths, HostReader

__all__ = ["HostPaths", "HostReader"]
