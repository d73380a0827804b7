"""Verdicts over time: rules on a schedule in, findings out."""
