"""What each provider says of a process.

Enters: a `Look`. Leaves: its `Claim`s, of the providers that the settings name.
"""

from __future__ import annotations

from collections.abc import Iterator

from otel_ofu.jobs import kubernetes, launchers, slurm
from otel_ofu.jobs.kubernetes import Pods
from otel_ofu.jobs.owner import JOB_ID, Claim
from otel_ofu.jobs.settings import JobSettings
from otel_ofu.jobs.watch import Look

ENVIRONMENT = "environment"


def variables(settings: JobSettings) -> frozenset[str]:
    """The only names that are ever read out of an environment."""
    names: set[str] = set()
    for provider in settings.providers:
        if provider == ENVIRONMENT:
            names.update(settings.environment)
        elif provider == slurm.NAME:
            names.update(slurm.variables(personal=settings.personal))
        elif provider in launchers.NAMES:
            names.update(launchers.variables(provider))
    return frozenset(names)


def claims_of(look: Look, pods: Pods, settings: JobSettings) -> tuple[Claim, ...]:
    found = (_claim(provider, look, pods, settings) for provider in settings.providers)
    return tuple(claim for claim in found if claim)


def _claim(provider: str, look: Look, pods: Pods, settings: JobSettings) -> Claim | None:
    place, environment = look.place, look.environment
    match provider:
        case "environment":
            return _mapped(look, settings)
        case "slurm":
            return slurm.claim(place, environment, personal=settings.personal)
        case "k8s":
            return pods.claim(place)
        case "container":
            return kubernetes.container_claim(place)
        case _ if provider in launchers.NAMES:
            return launchers.claim(provider, place, environment)
        case _:
            return None


def _mapped(look: Look, settings: JobSettings) -> Claim | None:
    told: dict[str, str] = {}
    for attribute, value in _pairs(look, settings):
        told.setdefault(attribute, value)
    job = told.pop(JOB_ID, "")
    return Claim(ENVIRONMENT, job, told) if job or told else None


def _pairs(look: Look, settings: JobSettings) -> Iterator[tuple[str, str]]:
    for name, attribute in settings.environment.items():
        if name in look.environment:
            yield attribute, look.environment[name]
