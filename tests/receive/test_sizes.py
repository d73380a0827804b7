"""Small bodies that hold very much: they are refused with words, before anything is built."""

from __future__ import annotations

import gzip
import json

import grpc
import pytest
from google.rpc.status_pb2 import Status

from otel_ofu.catalog.registry import load_registry
from otel_ofu.receive.decode import Decoder
from otel_ofu.receive.points import MalformedError, RequestSizeCount, RequestSizeLimits
from otel_ofu.receive.wire import resource_slices
from tests.receive.bodies import T0, as_json, body, gauge, point, request
from tests.receive.rig import PROTOBUF, Options, receiving

NOW = T0 + 1000.0
SMALL = RequestSizeLimits(resources=10, scopes=10, metrics=10, points=10, fields=200)
MANY = 1000
EMPTY = b"\x0a\x00"
NO_PROTOBUF = b"\x02\x00"
"""Field 0, behind the rest: protobuf, which builds all of the body, says so instead."""
JSON = {"Content-Type": "application/json"}
GZIP = {"Content-Encoding": "gzip"}


def inside(tag: int, content: bytes) -> bytes:
    """A field that holds a message of up to 16 KiB."""
    return bytes([tag, len(content) & 0x7F | 0x80, len(content) >> 7]) + content


def nested(content: bytes, *tags: int) -> bytes:
    """The innermost tag comes first."""
    for tag in tags:
        content = inside(tag, content)
    return content


PAIR = b"\x3a\x00"
SCOPE = METRIC = b"\x12\x00"
CASES = [
    ("resources", EMPTY * MANY),
    ("scopes", nested(SCOPE * MANY, 0x0A)),
    ("metrics", nested(METRIC * MANY, 0x12, 0x0A)),
    *(("points", nested(EMPTY * MANY, form, 0x12, 0x12, 0x0A)) for form in (0x2A, 0x3A, 0x4A)),
    ("fields", nested(PAIR * MANY, 0x0A, 0x2A, 0x12, 0x12, 0x0A)),
    ("fields", nested(EMPTY * MANY, 0x3A, 0x0A, 0x2A, 0x12, 0x12, 0x0A)),
    ("fields", nested(EMPTY * MANY, 0x12, 0x3A, 0x0A, 0x2A, 0x12, 0x12, 0x0A)),
    # Point.exemplars, their attributes, Metric.metadata and the attributes of a scope.
    ("fields", nested(b"\x2a\x00" * MANY, 0x0A, 0x2A, 0x12, 0x12, 0x0A)),
    ("fields", nested(PAIR * MANY, 0x2A, 0x0A, 0x2A, 0x12, 0x12, 0x0A)),
    ("fields", nested(EMPTY * MANY, 0x2A, 0x12, 0x62, 0x12, 0x12, 0x0A)),
    ("fields", nested(b"\x1a\x00" * MANY, 0x0A, 0x12, 0x0A)),
    # Lists and maps, in attributes of points and of the resource.
    ("fields", nested(EMPTY * MANY, 0x2A, 0x12, 0x3A, 0x0A, 0x2A, 0x12, 0x12, 0x0A)),
    ("fields", nested(EMPTY * MANY, 0x32, 0x12, 0x0A, 0x0A, 0x0A)),
    ("fields", nested(EMPTY * MANY, 0x2A, 0x0A, 0x2A, 0x12, 0x0A, 0x0A, 0x0A)),
    ("fields", nested(EMPTY * MANY, 0x1A, 0x0A, 0x0A)),
    # Attributes, buckets, quantiles and exemplars of histograms and summaries.
    *(
        ("fields", nested(tag * MANY, 0x0A, form, 0x12, 0x12, 0x0A))
        for form, tags in ((0x4A, b"\x4a\x42"), (0x52, b"\x0a\x42\x4a\x5a"), (0x5A, b"\x3a\x32"))
        for tag in (bytes([each, 0]) for each in tags)
    ),
    ("fields", nested(b"\x10\x00" * MANY, 0x42, 0x0A, 0x52, 0x12, 0x12, 0x0A)),
    ("fields", nested(EMPTY * MANY, 0x0A, 0x0A)),
    ("fields", nested(EMPTY * MANY, 0x12, 0x12, 0x0A)),
    ("fields", b"\x10\x00" * MANY),
]


@pytest.mark.parametrize(("noun", "raw"), CASES)
def test_empty_messages_at_any_level_are_refused_before_they_are_built(
    noun: str, raw: bytes
) -> None:
    ours = Decoder(load_registry(), sizes=SMALL)
    limit = getattr(SMALL, noun)
    with pytest.raises(MalformedError, match=f"^the request has more than {limit} {noun}; send"):
        ours.decode(raw + NO_PROTOBUF, NOW)
    assert ours.remembered == (0, 0)


def test_lists_in_lists_are_refused_before_they_are_walked_to_the_end() -> None:
    content = b""
    for _ in range(200):
        content = inside(0x0A, inside(0x2A, content))
    raw = nested(content, 0x2A, 0x12, 0x0A, 0x0A, 0x0A)
    with pytest.raises(MalformedError, match="nested more than 100 deep"):
        Decoder(load_registry()).decode(raw + NO_PROTOBUF, NOW)


def test_an_attribute_that_comes_again_counts_again() -> None:
    """It is read once, but protobuf builds each of them."""
    pair = inside(0x3A, b"\x0a\x01k" + nested(EMPTY * 100, 0x2A, 0x12))
    point_ = inside(0x0A, pair)
    raw = nested(point_ * 8, 0x2A, 0x12, 0x12, 0x0A)
    with pytest.raises(MalformedError, match="more than 200 fields"):
        Decoder(load_registry(), sizes=SMALL).decode(raw + NO_PROTOBUF, NOW)


def test_a_new_resource_is_checked_by_protobuf_also_beside_known_ones() -> None:
    ours = Decoder(load_registry())
    first, other = (
        request({"hw.id": gpu}, gauge("ofu.gpu.utilization", point(0.5))).resource_metrics[0]
        for gpu in ("GPU-1", "GPU-2")
    )
    known = inside(0x0A, first.SerializeToString())
    assert ours.decode(known, NOW).accepted == 1
    with pytest.raises(MalformedError, match="not an ExportMetricsServiceRequest"):
        ours.decode(known + inside(0x0A, other.SerializeToString() + NO_PROTOBUF), NOW)
    assert ours.decode(known + inside(0x0A, other.SerializeToString()), NOW).accepted == 2


def test_the_walk_ends_where_the_limit_is_passed() -> None:
    count = RequestSizeCount(SMALL)
    with pytest.raises(MalformedError, match="more than 10 resources"):
        resource_slices(EMPTY * MANY, count)
    assert SMALL.fields - count.fields_left == SMALL.resources + 1


LEVELS = [
    ("resources", '{{"resourceMetrics":[{}]}}'),
    ("scopes", '{{"scopeMetrics":[{}]}}'),
    ("metrics", '{{"metrics":[{}]}}'),
    ("points", '{{"gauge":{{"dataPoints":[{}]}}}}'),
]


def in_json(noun: str) -> bytes:
    """30 empty objects as resources, scopes, metrics or points."""
    nouns = [name for name, _ in LEVELS]
    text = ",".join(["{}"] * 30)
    for _, level in LEVELS[nouns.index(noun) :: -1]:
        text = level.format(text)
    return text.encode()


@pytest.mark.parametrize("noun", ["resources", "scopes", "metrics", "points"])
def test_the_same_holds_for_json(noun: str) -> None:
    ours = Decoder(load_registry(), sizes=SMALL)
    with pytest.raises(MalformedError, match=f"more than 10 {noun}"):
        ours.decode_json(in_json(noun), NOW)
    assert ours.remembered == (0, 0)


@pytest.mark.parametrize("tree", [[{}] * MANY, {"a": [1] * MANY}, [[]] * MANY])
def test_json_is_counted_before_it_is_read(tree: object) -> None:
    raw = json.dumps(tree).encode() + b"this is no JSON"
    with pytest.raises(MalformedError, match="more than 200 fields"):
        Decoder(load_registry(), sizes=SMALL).decode_json(raw, NOW)


def test_requests_of_5000_points_pass() -> None:
    resource = {"hw.id": "GPU-1", "host.name": "node-1"}
    points = [point(n / 5000, {"hw.id": f"GPU-{n}"}) for n in range(5000)]
    raw = body(resource, gauge("ofu.gpu.utilization", *points))
    assert Decoder(load_registry()).decode(raw, NOW).accepted == 5000
    assert Decoder(load_registry()).decode_json(as_json(raw), NOW).accepted == 5000


def test_a_client_reads_which_limit_it_passed_and_need_not_come_back() -> None:
    raw = EMPTY * (RequestSizeLimits().resources + 1)
    words = "the request has more than 20000 resources; send smaller batches"
    with receiving(Options(grpc=True)) as rig:
        status, headers, answer = rig.post(gzip.compress(raw), {**PROTOBUF, **GZIP})
        assert (status, Status.FromString(answer).message) == (400, words)
        assert "retry-after" not in headers
        tree: object = {"resourceMetrics": [{}] * (RequestSizeLimits().resources + 1)}
        status, _, answer = rig.post(json.dumps(tree).encode(), JSON)
        assert (status, json.loads(answer)["message"]) == (400, words)
        with pytest.raises(grpc.RpcError) as caught:
            rig.call(raw)
        assert (caught.value.code(), caught.value.details()) == (
            grpc.StatusCode.INVALID_ARGUMENT,
            words,
        )
        assert not caught.value.trailing_metadata()
        assert (
            rig.post(body({"hw.id": "GPU-1"}, gauge("ofu.gpu.utilization", point(0.5))))[0] == 200
        )
