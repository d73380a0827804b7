"""What else is to be seen on a node: flags of the processes on its GPUs, and its own load.

Enters: /proc, /sys, and which process holds which device. Leaves: flags and numbers that become
metrics of GPUs and of the node, so that rules and causes can ask for them.
"""
