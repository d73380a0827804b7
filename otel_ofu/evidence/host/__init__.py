"""The load of a node: processors, pressure, memory, disks, networks, the ranks themselves.

Enters: /proc and /sys. Leaves: one `Observation` of the node for each read.
"""

from otel_ofu.evidence.host.reader import HostReader

__all__ = ["HostReader"]
