"""A notifier that appends the first line of each message to a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from otel_ofu.notify import notifier as api


class FileConfig(api.NotifierConfig, frozen=True, kw_only=True):
    path: str

    def mistakes(self, around: api.CheckContext) -> Iterator[api.Mistake]:
        if not Path(self.path).is_absolute():
            yield ("path",), f"{self.path!r} is not an absolute path"


class FileNotifier:
    name = "file"
    settings = FileConfig

    def encode(
        self, config: FileConfig, notification: api.Notification, options: api.MessageOptions
    ) -> bytes:
        return api.message_of(notification, options, "text").title.encode()

    def connect(
        self, config: FileConfig, clock: api.Clock, environ: Mapping[str, str]
    ) -> FileTransport:
        return FileTransport(config.path)


class FileTransport:
    def __init__(self, path: str) -> None:
        self.endpoint = path

    def send(self, body: api.Body, limit_s: float) -> api.Outcome:
        try:
            with Path(self.endpoint).open("ab") as file:
                file.write(body.raw() + b"\n")
        except OSError as error:
            return api.Unavailable(str(error))
        return api.Delivered()

    def halves(self, body: api.Body) -> None:
        return None

    def close(self) -> None: ...


NOTIFIER: api.Notifier = FileNotifier()
