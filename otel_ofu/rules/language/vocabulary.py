"""The words of the language: scopes, functions and operators, as rule authors write them."""

from __future__ import annotations

from enum import StrEnum


class Scope(StrEnum):
    """Whose metric: of the entity under judgement, or of the job or node that the GPU is in."""

    OWN = ""
    JOB = "job"
    NODE = "node"


class Function(StrEnum):
    """A function over the samples of one metric in a window (at - window, at]."""

    AVG = "avg"
    MIN = "min"
    MAX = "max"
    SUM = "sum"
    STDDEV = "stddev"
    COUNT = "count"
    LAST = "last"
    RATE = "rate"
    INCREASE = "increase"
    QUANTILE = "quantile"


class Relation(StrEnum):
    """Which GPUs: those of the same job and SKU (gpu rules), or all of the job or node."""

    PEERS = "peers"
    GPUS = "gpus"


class GroupFunction(StrEnum):
    """A function over the values of the GPUs of a group at one instant."""

    AVG = "avg"
    MIN = "min"
    MAX = "max"
    SUM = "sum"
    MEDIAN = "median"
    MAD = "mad"
    QUANTILE = "quantile"
    COUNT = "count"


class Sign(StrEnum):
    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"


class Comparator(StrEnum):
    LESS = "<"
    LESS_EQUAL = "<="
    GREATER = ">"
    GREATER_EQUAL = ">="
    EQUAL = "=="
    NOT_EQUAL = "!="
