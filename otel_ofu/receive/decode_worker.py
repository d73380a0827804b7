"""Decoding, one request at a time: those that have to wait do so in a bounded queue.

Enters: bodies from all servers. Leaves: an `DecodeOutcome` for each, and everything good in the
store within a fifth of a second.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus

from otel_ofu.model.clock import Clock
from otel_ofu.net.http_message import BadRequestError, gunzip
from otel_ofu.net.http_service import Refusal
from otel_ofu.receive.answers import Form
from otel_ofu.receive.buffer import Buffer
from otel_ofu.receive.decode import Decoder
from otel_ofu.receive.points import MalformedError

_log = logging.getLogger(__name__)

FLUSH_S = 0.2
"""Starting value: writing what came in a fifth of a second in one go costs a few percent of
decoding it, and rules run once in seconds."""
SMALL_BYTES = 128 * 1024
"""Starting value: decoding it takes about as long as handing it to another thread."""
FLUSH_POINTS = 50_000
"""Starting value: 5 MB, a tenth of a second's work."""


@dataclass(frozen=True, slots=True)
class DecodeOutcome:
    """`refusal` None: taken, but for `rejected` points, which `message` explains."""

    refusal: Refusal | None = None
    rejected: int = 0
    message: str = ""


@dataclass(frozen=True, slots=True)
class DecodeTask:
    """One body. `reply` is called once, from any thread, and must not raise."""

    body: bytes
    form: Form
    gzipped: bool
    limit: int
    reply: Callable[[DecodeOutcome], None]


class DecodeWorker:
    """`counts`: points `accepted`, `rejected`, `ignored`; requests `refused`, `failed`, `busy`."""

    def __init__(self, decoder: Decoder, buffer: Buffer, clock: Clock, waiting: int) -> None:
        self._decoder = decoder
        self._buffer = buffer
        self._clock = clock
        self._tasks: queue.Queue[DecodeTask | None] = queue.Queue(waiting)
        self._counts: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self._failures: set[str] = set()
        self._lock = threading.Lock()
        self._busy = 0
        self._busy_lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="otlp-decode", daemon=True)

    @property
    def counts(self) -> Mapping[str, int]:
        return {**self._counts, "busy": self._busy}

    @property
    def reasons(self) -> Mapping[str, int]:
        """Rejected points by reason."""
        return dict(self._reasons)

    def start(self) -> None:
        self._thread.start()

    def offer(self, task: DecodeTask) -> bool:
        """Takes a task, or refuses it: there are too many, or it is over.

        A small one is done at once when nobody else is at it: handing it to another thread and
        waiting for the answer takes longer than decoding it.
        """
        if self._closed:
            return False
        if self._tasks.empty() and self._thread.is_alive():
            small = _unpacked(task)
            if small is not None and self._done_at_once(small):
                return True
        try:
            self._tasks.put_nowait(task)
        except queue.Full:
            with self._busy_lock:
                self._busy += 1
            return False
        return True

    def _done_at_once(self, task: DecodeTask) -> bool:
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if self._closed:
                return False
            outcome = self._outcome(task)
        finally:
            self._lock.release()
        task.reply(outcome)
        return True

    def close(self, deadline_s: float) -> None:
        """Decodes what waits, writes it, and ends. May be called twice."""
        self._closed = True
        if not self._thread.is_alive():
            return
        try:
            self._tasks.put(None, timeout=deadline_s)
        except queue.Full:
            _log.warning("OTLP receiver: requests were left undecoded at the end")
        self._thread.join(deadline_s)

    def _run(self) -> None:
        flushed_s = self._clock.monotonic_s()
        while True:
            left_s = flushed_s + FLUSH_S - self._clock.monotonic_s()
            task = self._next(left_s)
            if isinstance(task, DecodeTask):
                with self._lock:
                    outcome = self._outcome(task)
                task.reply(outcome)
            elapsed_s = self._clock.monotonic_s() - flushed_s
            if task is None or elapsed_s >= FLUSH_S or self._buffer.points >= FLUSH_POINTS:
                with self._lock:
                    self._flush()
                flushed_s = self._clock.monotonic_s()
            if task is None:
                return

    def _next(self, wait_s: float) -> DecodeTask | str | None:
        try:
            return self._tasks.get(timeout=max(0.001, wait_s))
        except queue.Empty:
            return "nothing"

    def _outcome(self, task: DecodeTask) -> DecodeOutcome:
        try:
            return self._taken(task)
        except (MalformedError, BadRequestError) as error:
            self._counts["refused"] += 1
            status = error.status if isinstance(error, BadRequestError) else 400
            return DecodeOutcome(Refusal(status, str(error)))
        except Exception as error:  # noqa: BLE001 - one bad request must not end the thread
            self._fail("a request could not be decoded", error)
            return DecodeOutcome(Refusal(500, "the request could not be decoded"))

    def _taken(self, task: DecodeTask) -> DecodeOutcome:
        now_s = self._clock.now_s()
        raw = gunzip(task.body, task.limit) if task.gzipped else task.body
        decode = self._decoder.decode if task.form == "protobuf" else self._decoder.decode_json
        intake = decode(raw, now_s)
        self._buffer.add(intake, now_s)
        rejected = intake.rejected
        self._counts["accepted"] += intake.accepted
        self._counts["ignored"] += intake.ignored
        self._counts["rejected"] += rejected.points
        self._reasons.update(rejected.counts)
        return DecodeOutcome(None, rejected.points, str(rejected))

    def _flush(self) -> None:
        try:
            self._buffer.flush(self._clock.now_s())
        except Exception as error:  # noqa: BLE001 - as above
            self._fail("received points could not be stored", error)

    def _fail(self, what: str, error: Exception) -> None:
        """One line for each distinct cause, and a count."""
        self._counts["failed"] += 1
        cause = f"{type(error).__name__}: {error}"
        if cause not in self._failures and len(self._failures) < 100:  # noqa: PLR2004 - lines of log
            self._failures.add(cause)
            _log.error("OTLP receiver: %s: %s", what, cause, exc_info=error)


def _unpacked(task: DecodeTask) -> DecodeTask | None:
    """The task without its compression, if it is a small one then."""
    if not task.gzipped:
        return task if len(task.body) <= SMALL_BYTES else None
    try:
        body = gunzip(task.body, min(SMALL_BYTES, task.limit))
    except BadRequestError as error:
        return None if error.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE else task
    return replace(task, body=body, gzipped=False)
