"""The page of the licences of all packages that an installation may have: names and versions are those of uv.lock."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

LOCK = Path(__file__).resolve().parents[2] / "uv.lock"
_OF: dict[str, str] = {
    "Apache-2.0": (
        "aiosignal async-timeout asyncpg atheris botocore frozenlist google-auth googleapis-common-protos hdrhistogram"
        " multidict opentelemetry-api opentelemetry-exporter-http-transport opentelemetry-exporter-otlp-common"
        " opentelemetry-exporter-otlp-proto-common opentelemetry-exporter-otlp-proto-http opentelemetry-proto"
        " opentelemetry-sdk opentelemetry-semantic-conventions pbr propcache requests yarl"
    ),
    "Apache-2.0 AND BSD-2-Clause": "prometheus-client",
    "Apache-2.0 AND MIT": "aiohttp",
    "Apache-2.0 OR BSD-3-Clause": "cryptography python-dateutil",
    "Apache-2.0 OR MIT": "uvloop",
    "BSD-2-Clause": "pyasn1 pyasn1-modules pygments",
    "BSD-3-Clause": "idna protobuf pycparser",
    "MIT": (
        "attrs azure-core azure-identity brotli charset-normalizer httptools jmespath markdown-it-py mdurl msal"
        " msal-extensions pyjwt pyyaml redis rich setuptools six toktok-rs urllib3"
    ),
    "MIT-0": "cffi",
    "MPL-2.0": "certifi shtab",
    "MPL-2.0 AND (Apache-2.0 OR MIT)": "orjson",
    "PSF-2.0": "aiohappyeyeballs backports-zstd typing-extensions",
}
LICENCES: Mapping[str, str] = {name: licence for licence, names in _OF.items() for name in names.split()}
"""The licence of each package as an SPDX expression, as its metadata states it, or its file of the licence."""
_PAGE = """\
# Licences

{made}

Dragoman is under the MIT License. It contains none of the packages below: they are installed with it. Names and
versions are those of `uv.lock`; the software bill of materials of a release (`dragoman-VERSION.cdx.json`) has the same
ones. A package of an extra is installed only with [the extra](../howto/install.md).

| package | version | licence | installed with |
| --- | --- | --- | --- |
{rows}
"""
Package = dict[str, Any]


def packages() -> dict[tuple[str, str], list[str]]:
    """Return all packages of an installation, by name and version, with the extras that need them; `` for all."""
    lock = tomllib.loads(LOCK.read_text("utf-8"))
    by_name: dict[str, list[Package]] = {}
    for package in lock["package"]:
        by_name.setdefault(package["name"], []).append(package)
    [own] = by_name["dragoman"]
    parts = {"": own.get("dependencies", []), **own.get("optional-dependencies", {})}
    found: dict[tuple[str, str], list[str]] = {}
    for extra, needed in parts.items():
        for key in _closure(needed, by_name):
            found.setdefault(key, []).append(extra)
    return dict(sorted(found.items()))


def _closure(needed: list[Package], by_name: Mapping[str, list[Package]]) -> Iterator[tuple[str, str]]:
    """Yield the packages that these need, and they themselves, once each."""
    seen: set[tuple[str, str]] = set()
    waiting = list(needed)
    while waiting:
        wanted = waiting.pop()
        for package in by_name[wanted["name"]]:
            if wanted.get("version", package["version"]) != package["version"]:
                continue
            for extra in wanted.get("extra", ()):
                waiting += [
                    each
                    for each in package.get("optional-dependencies", {}).get(extra, ())
                    if not any(name == each["name"] for name, _ in seen)
                ]
            key = package["name"], package["version"]
            if key not in seen:
                seen.add(key)
                waiting += package.get("dependencies", [])
                yield key


def page(made: str) -> str:
    """Return licences.md. Raises KeyError for a package without a licence in `LICENCES`."""
    rows = [
        f"| {name} | {version} | {LICENCES[name]} | {'every installation' if '' in extras else ', '.join(extras)} |"
        for (name, version), extras in packages().items()
    ]
    return _PAGE.format(made=made, rows="\n".join(rows))
