"""Throwaway certificates for tests of TLS: a CA, a server, a client, and two that must be refused.

In: a folder. Out: PEM files in it, for 127.0.0.1 and localhost.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = dt.timedelta(days=1)
PURPOSES = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
ADDRESSES = x509.SubjectAlternativeName(
    [x509.IPAddress(ip_address("127.0.0.1")), x509.DNSName("localhost")]
)


@dataclass(frozen=True)
class Identity:
    """A certificate and its private key, each a PEM file."""

    cert: Path
    key: Path


@dataclass(frozen=True)
class Certificates:
    """What `make_certificates` wrote."""

    ca: Path
    server: Identity
    client: Identity
    expired: Identity  # from the same CA, ended yesterday
    stranger: Identity  # valid, from a CA that nobody here trusts


@dataclass(frozen=True)
class Authority:
    """A CA that can sign."""

    cert: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def make_certificates(folder: Path) -> Certificates:
    """Write a fresh set of certificates and keys into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    authority, foreign = new_authority("otel-ofu test CA"), new_authority("another CA")
    ca = folder / "ca.pem"
    ca.write_bytes(authority.cert.public_bytes(serialization.Encoding.PEM))
    return Certificates(
        ca=ca,
        server=issue(authority, folder, "server"),
        client=issue(authority, folder, "client"),
        expired=issue(authority, folder, "expired", ends_in=-DAY),
        stranger=issue(foreign, folder, "stranger"),
    )


def new_authority(name: str) -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = common_name(name)
    may_sign = x509.BasicConstraints(ca=True, path_length=0)
    builder = certificate(subject, subject, key, DAY).add_extension(may_sign, critical=True)
    return Authority(builder.sign(key, hashes.SHA256()), key)


def issue(authority: Authority, folder: Path, name: str, ends_in: dt.timedelta = DAY) -> Identity:
    """Sign a certificate that serves as server and as client, write it and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = certificate(common_name(name), authority.cert.subject, key, ends_in)
    builder = builder.add_extension(ADDRESSES, critical=False)
    builder = builder.add_extension(PURPOSES, critical=False)
    identity = Identity(cert=folder / f"{name}.pem", key=folder / f"{name}.key")
    signed = builder.sign(authority.key, hashes.SHA256())
    identity.cert.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    identity.key.write_bytes(private_pem(key))
    return identity


def certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    ends_in: dt.timedelta,
) -> x509.CertificateBuilder:
    """A certificate that began three days ago, for the caller to complete and sign."""
    now = dt.datetime.now(dt.UTC)
    return x509.CertificateBuilder(
        issuer_name=issuer,
        subject_name=subject,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=now - 3 * DAY,
        not_valid_after=now + ends_in,
    )


def common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
