"""Whether an address is this machine's own.

Enters: the host of a URL, or an address. Leaves: True or False; nothing is sent, no name resolved.
"""

from __future__ import annotations

import ipaddress
import socket


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
