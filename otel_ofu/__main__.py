"""`otel-ofu` and `python -m otel_ofu`."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs the command line; leaves with its exit status."""
    from otel_ofu.cli.main import run  # noqa: PLC0415 - `import otel_ofu` stays light

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
