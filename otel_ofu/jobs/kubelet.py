"""The kubelet's own list of its pods: names, UIDs and labels.

Enters: its address and a token. Leaves: `Pod`s with the attributes that a setting maps labels to.
Source: kubelet /pods (port 10250, permission nodes/proxy or nodes/pods; or the read-only port).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from http.client import OK
from pathlib import Path
from typing import Any

from otel_ofu.jobs.kubernetes import Pod
from otel_ofu.jobs.settings import KubernetesSettings
from otel_ofu.net.http_client import Failure, HttpClient, HttpError
from otel_ofu.net.secrets import authorization
from otel_ofu.net.tls import TlsFiles

_MOST_BYTES = 64 * 2**20
"""Starting value: a pod has a few kB, a node at most a few hundred of them."""


class KubeletError(Exception):
    """The kubelet did not answer, in one line."""


class Kubelet:
    """One request a poll. Proxies from the environment are not used: it is on this node."""

    def __init__(self, settings: KubernetesSettings, timeout_s: float) -> None:
        self._settings = settings
        files = TlsFiles(ca_file=settings.kubelet_ca_file)
        self._client = HttpClient(files, limit_bytes=_MOST_BYTES)
        self._timeout_s = timeout_s

    def pods(self) -> tuple[Pod, ...]:
        """Waits up to the timeout for all of it. Raises `KubeletError`."""
        try:
            return tuple(_pods(json.loads(self._body()), self._settings.pod_labels))
        except HttpError as error:
            named = "kubelet_" if error.failure is Failure.TLS_FILES else ""
            raise KubeletError(f"{named}{error}") from error
        except ValueError as error:
            raise KubeletError(str(error)) from error
        except (TypeError, AttributeError, KeyError) as error:
            raise KubeletError("the answer is no list of pods") from error

    def close(self) -> None:
        self._client.close()

    def _body(self) -> bytes:
        url = self._settings.kubelet_url.rstrip("/") + "/pods"
        response = self._client.get(url, self._headers(), self._timeout_s)
        if response.status != OK:
            raise ValueError(f"answered {response.status_line}")
        if response.truncated:
            raise ValueError(f"more than {_MOST_BYTES} bytes")
        return response.body

    def _headers(self) -> dict[str, str]:
        """Read anew each time: the token is rotated. Never sent in the clear."""
        path = self._settings.kubelet_token_file
        if not self._settings.kubelet_url.lower().startswith("https:") or not Path(path).is_file():
            return {}
        return authorization(token_file=path)


def _pods(answer: Any, labels: Mapping[str, str]) -> Iterator[Pod]:  # noqa: ANN401 - JSON
    for item in answer["items"] or ():
        told = item["metadata"]
        has = told.get("labels") or {}
        attributes = {labels[name]: str(has[name]) for name in labels if has.get(name)}
        uid = (told.get("annotations") or {}).get("kubernetes.io/config.hash") or told["uid"]
        yield Pod(told["namespace"], told["name"], uid, attributes)
