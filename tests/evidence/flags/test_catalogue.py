"""The shipped flags: each can be seen, and says what people need."""

from __future__ import annotations

import re

import pytest

from otel_ofu.catalog.registry import load_registry
from otel_ofu.evidence.flags import load_flags
from otel_ofu.evidence.flags.catalogue import Flag, key_of
from otel_ofu.rules.language.language import parse_condition

BOOK = load_flags()


@pytest.mark.parametrize("flag", BOOK.flags, ids=lambda flag: flag.id)
def test_a_flag_can_be_asked_for_in_a_rule_and_is_a_metric(flag: Flag) -> None:
    registry = load_registry()
    parse_condition(f"flag({flag.id})", "gpu", registry)
    assert registry.metric(key_of(flag.id)).name == "ofu.gpu.flag"
    assert registry.point_attributes(key_of(flag.id)) == {"ofu.flag.name": flag.id}


@pytest.mark.parametrize("flag", BOOK.watched, ids=lambda flag: flag.id)
def test_a_mechanism_is_one_sentence(flag: Flag) -> None:
    assert re.fullmatch(r"[A-Z][^\n]*[^.]\.", flag.mechanism)
    assert ". " not in flag.mechanism


def test_no_variable_that_may_hold_a_secret_is_listed() -> None:
    secret = re.compile(r"TOKEN(?!IZERS)|SECRET|PASSWORD|API_?KEY|CREDENTIAL|_KEY$|COOKIE")
    assert [name for name in BOOK.variables if secret.search(name)] == []


def test_flags_that_are_looked_for_come_the_worst_first() -> None:
    severities = [flag.severity for flag in BOOK.watched]
    assert severities == sorted(severities, reverse=True)
    assert set(severities) == {"S1", "S2", "S3", "S4"}


def test_what_is_not_to_be_flagged_is_not_read() -> None:
    assert {"KINETO_USE_DAEMON", "TORCH_NCCL_TRACE_BUFFER_SIZE"}.isdisjoint(BOOK.variables)
