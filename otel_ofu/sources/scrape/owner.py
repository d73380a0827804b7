"""Whose GPU it is, as far as the labels of a page say so.

Enters: the label sets of all series of a device. Leaves: OpenTelemetry attributes.

A GPU that is shared (time-slicing, several jobs) has a series for each owner. What they agree on
is true of the GPU and is kept; what they do not agree on is left out: the GPU has no one such
owner, and its values are nobody's share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from otel_ofu.catalog.vendors import Profile

Labels = Mapping[str, str]
JOB_ID = "ofu.job.id"
JOB_SOURCE = "ofu.job.source"
SOURCE_NAME = "scrape"
_NO_JOB = "0"
"""What exporters write for a GPU that no job holds."""


def moved_labels(label_sets: Iterable[Labels], prefix: str) -> dict[str, str]:
    """The labels that Prometheus moved out of its own way -> their names on this page.

    Where one is moved, the label of the plain name speaks about the exporter, not the workload;
    on this page that holds for idle GPUs as well, which have the plain one only.
    """
    return {
        name.removeprefix(prefix): name
        for labels in label_sets
        for name in labels
        if name.startswith(prefix)
    }


def owner_of(
    profile: Profile, label_sets: Iterable[Labels], moved: Mapping[str, str]
) -> dict[str, str]:
    """The owner's attributes; `moved` maps a label to the name it has on this page."""
    sets = list(label_sets)
    owner: dict[str, str] = {}
    for attribute, names in profile.owner.items():
        here = [moved.get(name, name) for name in names]
        said = {value for labels in sets if (value := _first(labels, here))}
        if attribute == JOB_ID:
            said.discard(_NO_JOB)
        if len(said) == 1:
            owner[attribute] = said.pop()
    if JOB_ID in owner:
        owner[JOB_SOURCE] = SOURCE_NAME
    return owner


def _first(labels: Labels, names: Iterable[str]) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")
