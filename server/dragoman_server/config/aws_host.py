"""The hosts of AWS: the service and the region that a request to one is signed for."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import urlsplit

_HOST = re.compile(
    r"(?:.+\.)?(?P<service>[a-z0-9-]+)\.(?P<region>[a-z]{2,}(?:-[a-z]+)+-\d+)\.(?:amazonaws\.com(?:\.cn)?|api\.aws)"
)
_SIGNED_AS = {"bedrock-runtime": "bedrock", "bedrock-agent-runtime": "bedrock"}
"""Endpoints whose requests are signed for another service (`signingName` in botocore's models)."""


class AwsHost(NamedTuple):
    """The service and the region that a request is signed for; empty if they are not known."""

    service: str = ""
    region: str = ""


def aws_host(url: str) -> AwsHost:
    """Return the service and the region of a URL such as https://bedrock-runtime.us-east-1.amazonaws.com/openai/v1."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return AwsHost()
    found = _HOST.fullmatch(host)
    if found is None:
        return AwsHost()
    service = found["service"].removesuffix("-fips")
    return AwsHost(_SIGNED_AS.get(service, service), found["region"])
