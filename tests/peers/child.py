"""A child process that serves on loopback: starts, gets ready, restarts, stops, leaves nothing.

In: a command, a log file, a question that tells whether it is ready. Out: a running child, or an
error with the end of its log.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

from tests.waiting import HANGS_S, wait_until

HOST = "127.0.0.1"
GRACE_S = 60.0
TAIL_LINES = 25

T = TypeVar("T")


class PeerError(Exception):
    """A peer did not do what it was asked; the message holds what it said."""


def free_ports(count: int) -> list[int]:
    """Different TCP ports on loopback that nobody listens on.

    Below the kernel's own range: a port from it could be taken by any outgoing connection while a
    peer restarts, and a client that knocks on such a port can even connect to itself.
    """
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    candidates = random.SystemRandom().sample(range(10_240, max(low, 20_000)), 200)
    return list(islice(filter(_is_free, candidates), count))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def call(
    port: int,
    path: str,
    *,
    query: Mapping[str, str] | None = None,
    body: object = None,
    timeout_s: float = HANGS_S,
) -> tuple[int, bytes]:
    """One plain HTTP request to loopback, a JSON POST when there is a body: (status, answer)."""
    target = f"{path}?{urlencode(query)}" if query else path
    with closing(HTTPConnection(HOST, port, timeout=timeout_s)) as connection:
        if body is None:
            connection.request("GET", target)
        else:
            headers = {"Content-Type": "application/json"}
            connection.request("POST", target, json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, response.read()


def call_json(port: int, path: str, *, query: Mapping[str, str] | None = None) -> Any:  # noqa: ANN401 (JSON)
    """GET a JSON document; PeerError with the peer's own words unless it answers with 200."""
    status, answer = call(port, path, query=query)
    if status != 200:
        raise PeerError(f"GET {path}: {status}: {answer.decode(errors='replace').strip()}")
    return json.loads(answer)


def answers_ok(port: int, path: str) -> bool:
    """Whether a GET gives 200 right now."""
    try:
        status, _ = call(port, path, timeout_s=1.0)
    except (OSError, HTTPException):
        return False
    return status == 200


class Child:
    """One peer process. It lives at most as long as the thread that started it.

    (The kernel ties a tethered child to the thread: start peers from the main thread.)
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        is_ready: Callable[[], bool],
        *,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.command = list(command)
        self._environment = environment or {}
        self.log = log
        self._is_ready = is_ready
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        return Path(self.command[0]).name

    @property
    def pid(self) -> int:
        """Process id of the running peer; PeerError when none runs."""
        if self._process is None:
            raise PeerError(f"{self.name} is not running")
        return self._process.pid

    def start(self) -> None:
        """Start and return once it is ready; PeerError with its log's end otherwise."""
        if self._process is not None:
            raise PeerError(f"{self.name} runs already, as process {self.pid}")
        tether = [sys.executable, "-I", "-S", str(Path(__file__).with_name("tether.py"))]
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [*tether, str(os.getpid()), *self.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self._environment},
            )
        self._process = process
        try:
            wait_until(self._is_up, f"{self.name} to be ready")
        except AssertionError as error:  # not ready, while it runs
            self.kill()
            raise PeerError(f"{error}\n{self.tail()}") from None
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """SIGTERM, and SIGKILL after the grace period. PeerError if it had ended by itself."""
        self._raise_if_ended()
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def kill(self) -> None:
        """SIGKILL, as a crash: nothing is flushed."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        """Stop and start, on the same ports and with the same files."""
        self.stop()
        self.start()

    def tail(self) -> str:
        """The last lines of its log, with the log's path."""
        lines = self.log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
        return "\n".join([f"end of {self.log}:", *(f"  {line}" for line in lines)])

    def _is_up(self) -> bool:
        self._raise_if_ended()
        return self._is_ready()

    def _raise_if_ended(self) -> None:
        """Forget a process that ended by itself, and say so."""
        if self._process is None or self._process.poll() is None:
            return
        status = self._process.returncode
        self._process = None
        raise PeerError(f"{self.name} ended by itself with status {status}\n{self.tail()}")
