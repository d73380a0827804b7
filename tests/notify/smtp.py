"""A mail server on loopback that keeps what it is sent, or refuses it; and a POST for Apprise."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_string
from email.message import Message

from tests.waiting import HANGS_S


@dataclass
class MailServer:
    """`refusals` answers to RCPT are given first, then mail is taken."""

    port: int = 0
    refusals: list[str] = field(default_factory=list)
    mails: list[Message] = field(default_factory=list)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def __init__(self, state: MailServer) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.state = state
        state.port = self.server_address[1]


class Handler(socketserver.StreamRequestHandler):
    server: Server

    def say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())

    def handle(self) -> None:
        self.say("220 loopback")
        while line := self.rfile.readline().decode().strip():
            self.answer(line.split(":")[0].split()[0].upper())

    def answer(self, verb: str) -> None:
        state = self.server.state
        if verb == "DATA":
            self.say("354 go on")
            state.mails.append(message_from_string(self.text()))
        if verb == "RCPT" and state.refusals:
            self.say(state.refusals.pop(0))
        else:
            self.say("250 ok")

    def text(self) -> str:
        lines = []
        while (line := self.rfile.readline().decode()) not in (".\r\n", ""):
            lines.append(line)
        return "".join(lines)


@contextmanager
def mail_server(*refusals: str) -> Iterator[MailServer]:
    state = MailServer(refusals=list(refusals))
    with Server(state) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield state
        finally:
            server.shutdown()
            thread.join(HANGS_S)
