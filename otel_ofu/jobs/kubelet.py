"""The kubelet's own list of its pods: names, UIDs and labels.

Enters: its address and a token. Leaves: `Pod`s with the attributes that a setting maps labels to.
Source: kubelet /pods (port 10250, permission nodes/proxy or nodes/pods; or the read-only port).
"""

from __future__ import annotations

import json
import ssl
import urllib.request
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any

from otel_ofu.jobs.kubernetes import Pod
from otel_ofu.jobs.settings import JobSettings
from otel_ofu.net.secret_file import read_token

_MOST_BYTES = 64 * 2**20


class KubeletError(Exception):
    """The kubelet did not answer, in one line."""


class Kubelet:
    """One request a poll."""

    def __init__(self, settings: JobSettings) -> None:
        self._settings = settings

    def pods(self) -> tuple[Pod, ...]:
        """Waits up to the timeout for each piece. Raises `KubeletError`."""
        try:
            return tuple(_pods(json.loads(self._body()), self._settings.pod_labels))
        except (OSError, ValueError, HTTPException) as error:
            raise KubeletError(str(error) or type(error).__name__) from error
        except (TypeError, AttributeError, KeyError) as error:
            raise KubeletError("the answer is no list of pods") from error

    def _body(self) -> bytes:
        url = self._settings.kubelet_url.rstrip("/") + "/pods"
        request = urllib.request.Request(url)  # noqa: S310 - the scheme is checked in settings
        self._sign(request)
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}),
            urllib.request.HTTPSHandler(context=self._context()),
        )
        with opener.open(request, timeout=self._settings.call_timeout_s) as answer:
            body: bytes = answer.read(_MOST_BYTES + 1)
        if len(body) > _MOST_BYTES:
            raise ValueError(f"more than {_MOST_BYTES} bytes")
        return body

    def _sign(self, request: urllib.request.Request) -> None:
        """Read anew each time: the token is rotated. Never sent in the clear, nor elsewhere."""
        path = self._settings.kubelet_token_file
        if request.type == "https" and Path(path).is_file():
            token = read_token(path)
            request.add_unredirected_header("Authorization", f"Bearer {token}")

    def _context(self) -> ssl.SSLContext:
        path = self._settings.kubelet_ca_file
        try:
            return ssl.create_default_context(cafile=path or None)
        except OSError as error:
            raise KubeletError(f"kubelet_ca_file {path}: {error.strerror or error}") from error


def _pods(answer: Any, labels: Mapping[str, str]) -> Iterator[Pod]:  # noqa: ANN401 - JSON
    for item in answer["items"] or ():
        told = item["metadata"]
        has = told.get("labels") or {}
        attributes = {labels[name]: str(has[name]) for name in labels if has.get(name)}
        uid = (told.get("annotations") or {}).get("kubernetes.io/config.hash") or told["uid"]
        yield Pod(told["namespace"], told["name"], uid, attributes)
