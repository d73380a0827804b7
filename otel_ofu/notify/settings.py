"""What a user may write about who is told: the block `route:`, in Alertmanager's words.

Enters: plain YAML data. Leaves: `RouteSettings`. The block is Alertmanager's root route, with the
receivers and time intervals beside it. Secrets come from files or environment
variables alone; there is no key to write one down.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import msgspec

from otel_ofu.net.tls import TlsFiles

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_DURATION = re.compile(r"(?:\d{1,9}(?:\.\d{1,9})? ?(?:ms|[smhdw]))+")
_PART = re.compile(r"(\d+(?:\.\d+)?) ?(ms|[smhdw])")


class Duration(float):
    """Seconds, written as `30s`, `5m` or `1h30m`."""


def parse_duration(text: object) -> Duration:
    """`1h30m` -> 5400.0. ValueError says what is allowed."""
    if not isinstance(text, str) or not _DURATION.fullmatch(text):
        raise ValueError(f"{text!r} is not a duration such as 30s, 5m or 1h30m")
    return Duration(sum(float(n) * _UNITS_S[unit] for n, unit in _PART.findall(text)))


def hook(type_: type[Any], value: Any) -> Any:  # noqa: ANN401 - msgspec's signature
    """For `msgspec.convert` and `yamlfile.convert`: makes durations of texts."""
    if type_ is Duration:
        return parse_duration(value)
    raise NotImplementedError(type_)


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A block of the file: unknown keys are mistakes.

    `REMOVED` of a block has the keys that it once had, and what to do instead.
    """


class BasicAuth(_Section, frozen=True, kw_only=True):
    username: str = ""
    password_file: str = ""
    password_env: str = ""


class Authorization(_Section, frozen=True, kw_only=True):
    """A bearer token."""

    credentials_file: str = ""
    credentials_env: str = ""


class HttpConfig(_Section, frozen=True, kw_only=True):
    timeout: Duration = Duration(10)
    basic_auth: BasicAuth = BasicAuth()
    authorization: Authorization = Authorization()
    tls_config: TlsFiles = TlsFiles()


class AlertmanagerConfig(_Section, frozen=True, kw_only=True):
    """Every server is sent every alert; `labels` are added to each."""

    servers: list[str] = []
    resend_delay: Duration = Duration(60)
    labels: dict[str, str] = {}
    http_config: HttpConfig = HttpConfig()


class WebhookConfig(_Section, frozen=True, kw_only=True):
    url: str = ""
    url_file: str = ""
    url_env: str = ""
    send_resolved: bool = True
    max_alerts: int = 0
    signing_secret_file: str = ""
    signing_secret_env: str = ""
    headers: dict[str, str] = {}
    headers_files: dict[str, str] = {}
    http_config: HttpConfig = HttpConfig()


PagerdutySeverity = Literal["critical", "error", "warning", "info"]
Severity = Literal["info", "warning", "error", "critical"]


class PagerdutyConfig(_Section, frozen=True, kw_only=True):
    routing_key_file: str = ""
    routing_key_env: str = ""
    url: str = "https://events.pagerduty.com/v2/enqueue"
    send_resolved: bool = True
    severities: dict[Severity, PagerdutySeverity] = {}
    http_config: HttpConfig = HttpConfig()


class AppriseConfig(_Section, frozen=True, kw_only=True):
    """One Apprise URL: Slack, Teams, mail, ... The whole URL is a secret."""

    url_file: str = ""
    url_env: str = ""
    send_resolved: bool = True
    format: Literal["text", "markdown", "html"] = "markdown"


class StdoutConfig(_Section, frozen=True, kw_only=True):
    """One line of JSON per notification, in the shape of the webhook."""

    send_resolved: bool = True


class ReceiverConfig(_Section, frozen=True, kw_only=True):
    name: str
    webhook_configs: list[WebhookConfig] = []
    pagerduty_configs: list[PagerdutyConfig] = []
    apprise_configs: list[AppriseConfig] = []
    stdout_configs: list[StdoutConfig] = []


class RouteConfig(_Section, frozen=True, kw_only=True):
    """One route; what is None or empty is that of the block `route`."""

    REMOVED: ClassVar[Mapping[str, str]] = {
        "routes": "routes have one level: write each of them under route.routes with all of its"
        " matchers, the narrower ones first, and continue: true where several apply"
    }
    receiver: str = ""
    matchers: list[str] = []
    continue_: bool = msgspec.field(name="continue", default=False)
    group_by: list[str] | None = None
    group_wait: Duration | None = None
    group_interval: Duration | None = None
    repeat_interval: Duration | None = None
    mute_time_intervals: list[str] = []
    active_time_intervals: list[str] = []


class TimeRange(_Section, frozen=True, kw_only=True):
    start_time: str
    end_time: str


class TimeSpanConfig(_Section, frozen=True, kw_only=True):
    times: list[TimeRange] = []
    weekdays: list[str] = []
    days_of_month: list[str] = []
    months: list[str] = []
    years: list[str] = []
    location: str = "UTC"


class TimeIntervalConfig(_Section, frozen=True, kw_only=True):
    name: str
    time_intervals: list[TimeSpanConfig]


class RouteSettings(_Section, frozen=True, kw_only=True):
    """Everything at its default: nobody is told.

    `max_groups`: beyond so many groups of one route at a time, further alerts come as one summary.
    `max_alerts`: so many are written out in one message, the worst first. `max_age`: a notification
    that nobody took is given up then. `time_zone`: of the times in messages.
    """

    REMOVED: ClassVar[Mapping[str, str]] = {
        "inhibit_rules": "a node is notified for its GPUs and jobs and a job for its GPUs, without"
        " rules; remove the block, or move rules of your own to an Alertmanager"
    }

    alertmanager: AlertmanagerConfig = AlertmanagerConfig()
    receivers: list[ReceiverConfig] = []
    receiver: str = ""
    group_by: list[str] = msgspec.field(default_factory=lambda: ["ofu_job_id"])
    group_wait: Duration = Duration(30)
    group_interval: Duration = Duration(300)
    repeat_interval: Duration = Duration(14400)
    routes: list[RouteConfig] = []
    time_intervals: list[TimeIntervalConfig] = []
    max_groups: int = 50
    max_alerts: int = 20
    max_age: Duration = Duration(21600)
    time_zone: str = "UTC"
    template_file: str = ""
    external_url: str = ""
