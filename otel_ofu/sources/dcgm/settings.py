"""What a user can say about DCGM: enters text, leaves what the client needs of it."""

from __future__ import annotations

from collections.abc import Iterator

from otel_ofu.files.settings import CheckContext, Mistake, Settings
from otel_ofu.model.errors import SourceUnavailable
from otel_ofu.sources.dcgm.endpoint import EngineEndpoint, parse_endpoint
from otel_ofu.sources.dcgm.wire import ClientSettings

MIN_INTERVAL_S = 0.1
"""Shorter profiling intervals are accepted by the engine and give wrong values (DCGM issue 310)."""


class DcgmSettings(Settings, frozen=True, kw_only=True):
    """Where the engine is and how to find its client.

    `address`: `host`, `host:port` or `unix:///path`; empty is the engine of this machine.
    `embedded` runs an engine inside the child process instead. `bindings_path` and `library_path`
    are folders; empty means the places where the packages of DCGM install. Without `profiling`
    no field of 1001 and above is asked for, so OFU has no value.
    """

    address: str = ""
    embedded: bool = False
    bindings_path: str = ""
    library_path: str = ""
    profiling: bool = True

    def mistakes(self, around: CheckContext) -> Iterator[Mistake]:  # noqa: ARG002 - text alone
        try:
            endpoint(self)
        except SourceUnavailable as error:
            yield ("address",), str(error)

    def client(self) -> ClientSettings:
        """What the client process needs. SourceUnavailable if the address makes no sense."""
        return ClientSettings(endpoint(self), self.bindings_path, self.library_path)


def endpoint(settings: DcgmSettings) -> EngineEndpoint:
    """The endpoint that the settings name. SourceUnavailable if they make no sense."""
    return parse_endpoint(settings.address, embedded=settings.embedded)
