"""`otel-ofu` and `python -m otel_ofu`."""

from __future__ import annotations

import os
import signal
import sys

INTERRUPTED = 130


def main() -> None:
    """Runs the command line; leaves with its exit status.

    Until a verb has its own way to stop, Ctrl-C ends the process at once: an interrupt in the
    middle of imports is no news to anybody, and raising one there can crash compiled modules.
    """
    signal.signal(signal.SIGINT, lambda _number, _frame: os._exit(INTERRUPTED))
    from otel_ofu.cli.main import run  # noqa: PLC0415 - `import otel_ofu` stays light

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
