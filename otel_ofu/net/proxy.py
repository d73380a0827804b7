"""The proxy for a host, from the variables of the environment that curl and Go read as well.

Enters: an environment (http_proxy, https_proxy, all_proxy, no_proxy; in lower case before upper
case), a scheme and a host. Leaves: the proxy's URL, or an empty string.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress


def proxy_for(environ: Mapping[str, str], scheme: str, host: str, port: int) -> str:
    """`http://[user:password@]host[:port]`, or empty for a direct connection."""
    url = _variable(environ, f"{scheme}_proxy") or _variable(environ, "all_proxy")
    if not url or _is_excepted(_variable(environ, "no_proxy"), host.lower(), port):
        return ""
    return url if "://" in url else f"http://{url}"


def _variable(environ: Mapping[str, str], name: str) -> str:
    return (environ.get(name) or environ.get(name.upper()) or "").strip()


def _is_excepted(no_proxy: str, host: str, port: int) -> bool:
    return any(_matches(entry.strip().lower(), host, port) for entry in no_proxy.split(","))


def _matches(entry: str, host: str, port: int) -> bool:
    """`*`, a name with all names below it, an address, or a network such as 10.0.0.0/8."""
    name = entry.lstrip(".")
    if not name:
        return False
    if "/" in name:
        return _is_within(name, host)
    return name in ("*", host, f"{host}:{port}") or host.endswith(f".{name}")


def _is_within(network: str, host: str) -> bool:
    from ipaddress import ip_address, ip_network  # noqa: PLC0415 - 5 ms for few environments

    with suppress(ValueError):  # a host name, or no network
        return ip_address(host) in ip_network(network, strict=False)
    return False
