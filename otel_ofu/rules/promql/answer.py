"""The JSON that the HTTP API of Prometheus answers with: bytes -> samples of an instant vector."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

Sample = tuple[Mapping[str, str], float]


class _Series(msgspec.Struct, frozen=True):
    metric: dict[str, str]
    value: tuple[float, str]


class _Data(msgspec.Struct, frozen=True):
    resultType: str  # noqa: N815 - as the API spells it
    result: msgspec.Raw = msgspec.Raw(b"[]")


class _Answer(msgspec.Struct, frozen=True):
    status: str
    data: _Data | None = None
    error: str = ""
    isPartial: bool = False  # noqa: N815 - as VictoriaMetrics spells it


def vector_of(body: bytes) -> list[Sample]:
    """The samples of an answer. ValueError says what the server said, or that it is no answer."""
    try:
        answer = msgspec.json.decode(body, type=_Answer)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"no answer of a Prometheus API: {_beginning(body)}") from error
    if answer.status != "success" or answer.data is None:
        raise ValueError(answer.error or answer.status)
    if answer.isPartial:
        raise ValueError("a partial answer: some of its storage nodes did not answer")
    if answer.data.resultType != "vector":
        raise ValueError(f"a {answer.data.resultType} where a vector was asked for")
    try:
        series = msgspec.json.decode(answer.data.result, type=list[_Series])
    except msgspec.DecodeError as error:
        raise ValueError(f"no vector of a Prometheus API: {error}") from error
    return [(one.metric, float(one.value[1])) for one in series]


def _beginning(body: bytes) -> str:
    text = " ".join(body[:200].decode("utf-8", "replace").split())
    return text or "it is empty"
