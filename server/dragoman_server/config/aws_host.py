"""The hosts of AWS: the service and the region that a request to one is signed for."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import urlsplit

_HOST = re.compile(
    r"(?:.+\.)?(?P<service>[a-z0-9-]+)\.(?P<region>[a-z]{2,}(?:-[a-z]+)+-\d+)\.(?:amazonaws\.(?:com(?:\.cn)?|eu)|api\.aws)"
)
_SIGNED_AS = {"bedrock-runtime": "bedrock", "bedrock-agent-runtime": "bedrock"}
"""Endpoints whose requests are signed for another service (`signingName` in botocore's models)."""
_BEDROCK = {"bedrock-runtime": "runtime", "bedrock-mantle": "mantle"}
"""Endpoints of Bedrock that serve the APIs of Anthropic and OpenAI, with the words for them here."""


class AwsHost(NamedTuple):
    """The service and the region that a request is signed for; empty if they are not known."""

    service: str = ""
    region: str = ""


def aws_host(url: str) -> AwsHost:
    """Return the service and the region of a URL such as https://bedrock-runtime.us-east-1.amazonaws.com/openai/v1."""
    endpoint, region = _endpoint_and_region(url)
    return AwsHost(_SIGNED_AS.get(endpoint, endpoint), region)


def bedrock_endpoint(url: str) -> str:
    """Return the endpoint of Bedrock at a URL's host: `runtime` or `mantle`; empty for other hosts."""
    return _BEDROCK.get(_endpoint_and_region(url)[0], "")


def bedrock_problem(url: str, *, messages: bool) -> str | None:
    """Return why Bedrock does not serve an API at this base URL, None if it does or the host is another.

    `messages` is True for Anthropic's Messages, and False for OpenAI's APIs. The paths are those of
    https://docs.aws.amazon.com/bedrock/latest/userguide/inference-messages-api.html and inference-responses-api.html.
    """
    endpoint = bedrock_endpoint(url)
    if not endpoint:
        return None
    parts = urlsplit(url)
    if messages:
        paths = ["/anthropic"]
    else:
        paths = ["/openai/v1"] if endpoint == "runtime" else ["/v1", "/openai/v1"]
    # Anthropic's base URLs are understood with /v1 as well.
    known = [*paths, "/anthropic/v1"] if messages else paths
    if parts.path.rstrip("/") in known:
        return None
    written = " or ".join(f"{parts.scheme}://{parts.netloc}{path}" for path in paths)
    return f"is not where Bedrock serves this dialect: write {written}"


def _endpoint_and_region(url: str) -> tuple[str, str]:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return "", ""
    found = _HOST.fullmatch(host)
    return ("", "") if found is None else (found["service"].removesuffix("-fips"), found["region"])
