"""GPUs as NVIDIA DCGM sees them, read from a host engine or from one embedded in a child process.

Enters: `DcgmSettings`. Leaves: `Reading`s (`source.DcgmSource`) and, for `doctor` and for the
choice of a source, a `DcgmProbe` (`source.probe`). The vendor's client lives in a child process
(`worker`), because a call into it can block for two minutes; nothing here imports it.
"""
