"""An attribute has one label name, wherever it is read."""

from __future__ import annotations

import pytest

from otel_ofu.catalog.registry import load_registry
from otel_ofu.export.prometheus import PageOptions, PrometheusPage
from otel_ofu.model import Attribute, Entity, Observation, Window
from otel_ofu.model.labels import entity_labels, is_label_name, label_name
from otel_ofu.notify.alert import labels_of
from otel_ofu.rules.files import rules_from_text
from tests.notify.rig import finding as rig_finding

ODD: dict[str, Attribute] = {
    "2nd.rack": "r7",
    "k8s.pod.label.app-x": "train",
    "_own": "o",
    "ofu.job.verified": True,
}
LABELS = {
    "key_2nd_rack": "r7",
    "k8s_pod_label_app_x": "train",
    "key_own": "o",
    "ofu_job_verified": "true",
}


@pytest.mark.parametrize(
    ("attribute", "label"),
    [
        ("hw.id", "hw_id"),
        ("a-b/c", "a_b_c"),
        ("a..b", "a__b"),
        ("2x", "key_2x"),
        ("_x", "key_x"),
        ("__x", "__x"),
        (".x", "key_x"),
        ("\u00e4", "key_"),
        ("", "key_"),
    ],
)
def test_names_are_those_that_prometheus_gives(attribute: str, label: str) -> None:
    assert label_name(attribute) == label
    assert is_label_name(label)


def test_an_alert_a_template_and_a_series_have_the_same_labels() -> None:
    finding = rig_finding("GPU-1", attributes=ODD)
    assert finding.entity is not None
    assert LABELS.items() <= labels_of(finding).items()
    assert LABELS.items() <= entity_labels(finding.entity).items()
    page = PrometheusPage(load_registry(), {}, PageOptions(10.0, labels=tuple(ODD)))
    page.update([Observation(finding.entity, Window(0, 10), {"ofu": 0.5})])
    text = page.text(10.0)
    assert all(f'{name}="{value}"' in text for name, value in LABELS.items())


def test_a_label_of_a_pod_can_be_named_in_a_template() -> None:
    text = "{{ $labels.k8s_pod_label_app_x }}"
    rules = rules_from_text(
        "groups:\n  - name: g\n    rules:\n"
        f"      - {{alert: Low, each: gpu, expr: ofu < 1, annotations: {{summary: '{text}'}}}}\n",
        load_registry(),
    )
    (rule,) = rules
    entity = Entity("gpu", "GPU-1", ODD)
    assert rule.annotations["summary"].render({}, entity_labels(entity)) == "train"
