"""Why a finding fired: causes ranked by evidence.

Enters: findings, and through the store all that a rule can see. Leaves: the findings with their
causes, those of an incident as one.
"""

from otel_ofu.diagnose.baseline import Baselines
from otel_ofu.diagnose.card import card, explain_finding
from otel_ofu.diagnose.cause import Cause, CauseCatalogue
from otel_ofu.diagnose.diagnoser import Diagnoser, evaluated_expressions
from otel_ofu.diagnose.incidents import Incidents, StoreNodes
from otel_ofu.diagnose.load import causes_from_text, load_causes

__all__ = [
    "Baselines",
    "Cause",
    "CauseCatalogue",
    "Diagnoser",
    "Incidents",
    "StoreNodes",
    "card",
    "causes_from_text",
    "evaluated_expressions",
    "explain_finding",
    "load_causes",
]
