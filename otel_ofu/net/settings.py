"""What several stages have in their blocks of the configuration: addresses, URLs, credentials.

Enters: what a user wrote. Leaves: the same, checked as a connection would check it; mistakes, none
of which holds a secret; whether a host is this machine (nothing is sent, no name resolved).
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from otel_ofu.files.settings import CheckContext, Mistake, ParsedText, Settings, tried
from otel_ofu.net.secrets import Secret, SecretError, read_secret, read_token
from otel_ofu.net.tls import PemFile, TlsFiles, check_tls_files

TokenFile = Annotated[str, ParsedText(read_token)]
"""The path of a file with a bearer token, read again at each use; empty: none."""
PasswordFile = Annotated[str, ParsedText(read_secret)]


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen; port 0 takes a free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """`127.0.0.1:4318`, `[::]:4317`. ValueError has what is allowed."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    proper = colon and host and port.isascii() and port.isdigit() and int(port) < 1 << 16
    if not proper or (":" in host and not text.startswith("[")):
        raise ValueError(f"{text!r} is not an address; allowed: host:port, such as 127.0.0.1:4318")
    return Address(host, int(port))


ListenAddress = Annotated[str, ParsedText(parse_address)]
"""host:port to listen on; empty: off."""


def parse_url(text: str) -> str:
    """`http(s)://host[:port][/path]`, without credentials. ValueError has what is allowed."""
    if why := url_problem(text):
        shown = text.partition("?")[0].rpartition("@")[2]  # the rest may be a secret
        raise ValueError(f"{shown!r} is {why}")
    return text


def url_problem(text: str) -> str:
    """What is wrong with a URL, without its text, which may be a secret; empty if nothing is."""
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, usable = urlsplit(""), False
    if not usable or any(c.isspace() or not c.isprintable() for c in text):
        return "not a URL; allowed: http(s)://host[:port][/path]"
    has_user = "@" in parts.netloc
    return "a URL with a user or password in it; use the keys for credentials" if has_user else ""


RequiredUrl = Annotated[str, ParsedText(parse_url, required=True)]


class ServerAccess(Settings, frozen=True, kw_only=True):
    """How to get in at an HTTP server that is asked: one of a token and a user name, and its CA."""

    bearer_token_file: TokenFile = ""
    username: str = ""
    password_file: PasswordFile = ""
    ca_file: PemFile = ""

    def mistakes(self, around: CheckContext) -> Iterator[Mistake]:  # noqa: ARG002 - files alone
        if self.username and self.bearer_token_file:
            yield ("username",), "username and bearer_token_file: one of them, not both"
        if self.password_file and not self.username:
            yield ("password_file",), "a password without a username"
        if Path(self.ca_file).is_file():  # else reported at the key
            yield from tried(partial(check_tls_files, TlsFiles(ca_file=self.ca_file)), ("ca_file",))


def is_this_machine(host: str) -> bool:
    """`localhost`, this machine's name, or an address of one of its interfaces."""
    name = host.strip("[]").lower().rstrip(".")
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        own = socket.gethostname().lower()
        return name in ("localhost", own) or name.endswith(".localhost")
    return address.is_loopback or _is_bindable(address)


def _is_bindable(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Only an address of an interface of one's own can be bound."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6  # noqa: PLR2004 - IPv4
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True


def secret_mistakes(
    secret: Secret, key: str, problem: Callable[[str], str] = lambda _secret: ""
) -> Iterator[Mistake]:
    """`problem` is what is wrong with the secret, without its text."""
    if not secret.given:
        return
    steps = (f"{key}_file" if secret.file else f"{key}_env",)
    try:
        why = problem(secret.read())
    except SecretError as error:
        why = "" if secret.file else str(error)  # of a file its key reports it
    else:
        why = why and f"{secret.origin} holds {why}"
    if why:
        yield steps, why
