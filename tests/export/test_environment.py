"""OTEL_EXPORTER_OTLP_* means what the specification says, and a mistake names its variable."""

from __future__ import annotations

import pytest

from otel_ofu.export.settings import OtlpSettings, Signal
from otel_ofu.export.targets import endpoint_in_env, options_from_env, settings_from_env
from otel_ofu.net.tls import TlsFiles
from tests.peers.certs import Certificates, make_certificates


def settings(**variables: str) -> OtlpSettings:
    return settings_of("metrics", variables)


def settings_of(signal: Signal, variables: dict[str, str]) -> OtlpSettings:
    return settings_from_env(
        {f"OTEL_EXPORTER_OTLP_{name}": value for name, value in variables.items()}, signal
    )


def test_the_defaults_are_those_of_the_specification() -> None:
    assert settings() == OtlpSettings(
        protocol="http/protobuf",
        endpoint="http://localhost:4318/v1/metrics",
        headers={},
        compression="gzip",
        timeout_s=10.0,
        plaintext=True,
    )
    assert settings(PROTOCOL="grpc").endpoint == "localhost:4317"


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("http://h:1", "http://h:1/v1/logs"),
        ("http://h:1/", "http://h:1/v1/logs"),
        ("https://h/otlp/", "https://h/otlp/v1/logs"),
        ("http://h/a?k=v", "http://h/a/v1/logs?k=v"),
    ],
)
def test_the_general_endpoint_is_a_base(base: str, url: str) -> None:
    assert settings_of("logs", {"ENDPOINT": base}).endpoint == url


def test_the_endpoint_of_a_signal_is_taken_as_it_is() -> None:
    variables = {"ENDPOINT": "http://general", "METRICS_ENDPOINT": "http://specific/in"}
    assert settings_of("metrics", variables).endpoint == "http://specific/in"
    assert settings_of("logs", variables).endpoint == "http://general/v1/logs"


def test_each_variable_of_the_signal_comes_before_the_general_one() -> None:
    found = settings(
        TIMEOUT="10000",
        METRICS_TIMEOUT="2500",
        COMPRESSION="gzip",
        METRICS_COMPRESSION="none",
        PROTOCOL="http/protobuf",
        METRICS_PROTOCOL="grpc",
        HEADERS="a=1",
        METRICS_HEADERS="b=2",
    )
    assert (found.timeout_s, found.compression, found.protocol, found.headers) == (
        2.5,
        "none",
        "grpc",
        {"b": "2"},
    )


def test_an_empty_variable_is_an_unset_one() -> None:
    assert settings(ENDPOINT="", TIMEOUT=" ", METRICS_ENDPOINT="").timeout_s == 10.0
    assert not endpoint_in_env({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, "metrics")
    assert endpoint_in_env({"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://h"}, "logs")
    assert not endpoint_in_env({"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://h"}, "metrics")


def test_headers_are_percent_decoded_and_may_hold_equals_signs() -> None:
    text = "Authorization=Basic%20abc%3D%3D, x-tenant = a=b ,,"
    assert settings(HEADERS=text).headers == {"authorization": "Basic abc==", "x-tenant": "a=b"}


@pytest.mark.parametrize(
    ("endpoint", "insecure", "target"),
    [
        ("http://h:1", "false", ("h:1", "plaintext")),
        ("https://h:1/", "true", ("h:1", "TLS")),
        ("h:1", "true", ("h:1", "plaintext")),
        ("h:1", "", ("h:1", "TLS")),
        ("h", "TRUE", ("h:4317", "plaintext")),
        ("https://[::1]:5", "", ("[::1]:5", "TLS")),
    ],
)
def test_a_grpc_endpoint_is_plaintext_by_its_scheme_or_else_by_insecure(
    endpoint: str, insecure: str, target: tuple[str, str]
) -> None:
    found = settings(PROTOCOL="grpc", ENDPOINT=endpoint, INSECURE=insecure)
    assert (found.endpoint, "plaintext" if found.plaintext else "TLS") == target


def test_tls_files_are_read(tmp_path_factory: pytest.TempPathFactory) -> None:
    made: Certificates = make_certificates(tmp_path_factory.mktemp("certificates"))
    found = settings(
        CERTIFICATE=str(made.ca),
        CLIENT_CERTIFICATE=str(made.client.cert),
        METRICS_CLIENT_KEY=str(made.client.key),
    )
    assert found.tls == TlsFiles(
        ca_file=str(made.ca), cert_file=str(made.client.cert), key_file=str(made.client.key)
    )
    with pytest.raises(ValueError, match="no certificate and key in PEM that fit"):
        settings(CLIENT_CERTIFICATE=str(made.client.cert), CLIENT_KEY=str(made.server.key))
    with pytest.raises(ValueError, match="key_file without cert_file"):
        settings(CLIENT_KEY=str(made.server.key))


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("METRICS_PROTOCOL", "http/json", "'http/json' is not supported; allowed: grpc, http/prot"),
        ("COMPRESSION", "zstd", "'zstd' is not supported; allowed: gzip, none"),
        ("TIMEOUT", "10s", "'10s'; allowed: milliseconds as a whole number above 0, e.g. 10000"),
        ("TIMEOUT", "0", "milliseconds"),
        ("TIMEOUT", "-1", "milliseconds"),
        ("INSECURE", "yes", "'yes'; allowed: true, false"),
        ("HEADERS", "a=1,secret", "entry 2 is not key=value"),
        ("HEADERS", "a=1,=secret", "entry 2 is not key=value"),
    ],
)
def test_a_mistake_names_the_variable_and_what_is_allowed(name: str, value: str, said: str) -> None:
    with pytest.raises(ValueError, match=f"^OTEL_EXPORTER_OTLP_{name}: ") as caught:
        settings(**{name: value})
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        (
            {"ENDPOINT": "localhost:4318"},
            "'localhost:4318' is not an endpoint; allowed: http(s)://",
        ),
        ({"ENDPOINT": "http://h/v1/logs/"}, "is to be a base; leave off /v1/…, which is added"),
        ({"ENDPOINT": "ftp://h"}, "'ftp://h' is not an endpoint"),
        ({"ENDPOINT": "http://"}, "'http://' is not an endpoint"),
        ({"ENDPOINT": "http://h:99999"}, "Port out of range"),
        ({"ENDPOINT": "http://h:x"}, "Port could not be cast"),
        ({"ENDPOINT": "http://a b?k=secret"}, "'http://a b' has spaces in it"),
        ({"ENDPOINT": "http://me:secret@h"}, "no user and password in the URL; use headers"),
        ({"ENDPOINT": "http://h/v1/metrics", "PROTOCOL": "grpc"}, "has a path"),
        ({"HEADERS": "a%20b=secret"}, "'a b' is not a header name"),
        ({"HEADERS": "a=secret%0D%0Ax: y"}, "the value of 'a' has to be printable ASCII"),
        ({"HEADERS": "a=s%C3%A9cret"}, "the value of 'a' has to be printable ASCII"),
        ({"CERTIFICATE": "/nowhere/ca.pem"}, "ca_file /nowhere/ca.pem: No such file or directory"),
        ({"CERTIFICATE": "/dev/null"}, "ca_file /dev/null"),
        ({"TIMEOUT": "99999999"}, "allowed: more than 0, at most 3600 s"),
    ],
)
def test_a_value_that_cannot_work_is_one_clear_error_without_secrets(
    variables: dict[str, str], said: str
) -> None:
    with pytest.raises(ValueError, match=r"^OTEL_EXPORTER_OTLP_\*: ") as caught:
        settings(**variables)
    assert said in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_configuration_goes_before_the_environment_option_by_option() -> None:
    environ = {
        "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://env/in",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "5000",
        "OTEL_EXPORTER_OTLP_CLIENT_KEY": "env.key",
        "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE": "env.pem",
    }
    from_env = options_from_env(environ, "metrics")
    configured = type(from_env)(endpoint="http://config", cert_file="config.pem")
    merged = configured.over(from_env)
    assert (merged.endpoint, merged.signal_endpoint) == ("http://config", None)
    assert (merged.cert_file, merged.key_file) == ("config.pem", None)
    assert merged.timeout_s == 5.0


def test_headers_do_not_show_in_a_representation() -> None:
    assert "s3cret" not in repr(settings(HEADERS="a=s3cret"))
    assert "s3cret" not in repr(
        options_from_env({"OTEL_EXPORTER_OTLP_HEADERS": "a=s3cret"}, "logs")
    )
