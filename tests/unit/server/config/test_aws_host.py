"""The service and the region that requests to a host of AWS are signed for."""

from __future__ import annotations

import pytest

from dragoman_server.config.aws_host import aws_host, bedrock_endpoint, bedrock_problem


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://bedrock-runtime.us-east-1.amazonaws.com/openai/v1", ("bedrock", "us-east-1")),
        ("https://bedrock-runtime.us-gov-west-1.amazonaws.com", ("bedrock", "us-gov-west-1")),
        ("https://bedrock-runtime.cn-north-1.amazonaws.com.cn/anthropic", ("bedrock", "cn-north-1")),
        ("https://bedrock-runtime-fips.us-west-2.amazonaws.com", ("bedrock", "us-west-2")),
        ("https://bedrock-mantle.eu-west-1.api.aws/anthropic", ("bedrock-mantle", "eu-west-1")),
        ("https://vpce-1.bedrock-runtime.us-east-1.amazonaws.com", ("bedrock", "us-east-1")),
        ("https://abc.execute-api.ap-southeast-2.amazonaws.com/x", ("execute-api", "ap-southeast-2")),
        ("https://runtime.sagemaker.us-east-1.amazonaws.com", ("sagemaker", "us-east-1")),
        ("https://bedrock-runtime.eusc-de-east-1.amazonaws.eu/openai/v1", ("bedrock", "eusc-de-east-1")),
        ("https://amazonaws.com", ("", "")),
        ("https://bedrock-runtime.us-east-1.amazonaws.com.evil.example", ("", "")),
        ("http://127.0.0.1:9/v1", ("", "")),
        ("http://[::1", ("", "")),
    ],
)
def test_hosts(url: str, found: tuple[str, str]) -> None:
    assert aws_host(url) == found


RUNTIME, MANTLE = "https://bedrock-runtime.us-east-1.amazonaws.com", "https://bedrock-mantle.us-east-1.api.aws"


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        (f"{RUNTIME}/anthropic", "runtime"),
        ("https://vpce-1.bedrock-runtime-fips.us-east-1.amazonaws.com", "runtime"),
        (f"{MANTLE}/v1", "mantle"),
        ("https://bedrock-agent-runtime.us-east-1.amazonaws.com", ""),
        ("https://bedrock-runtime.us-east-1.amazonaws.com.evil.example", ""),
        ("http://[::1", ""),
    ],
)
def test_endpoints_of_bedrock(url: str, endpoint: str) -> None:
    assert bedrock_endpoint(url) == endpoint


@pytest.mark.parametrize(
    ("url", "messages", "written"),
    [
        (RUNTIME, True, f"{RUNTIME}/anthropic"),
        (f"{RUNTIME}/", False, f"{RUNTIME}/openai/v1"),
        (f"{RUNTIME}/openai/v1", True, f"{RUNTIME}/anthropic"),
        (f"{RUNTIME}/v1", False, f"{RUNTIME}/openai/v1"),
        (MANTLE, True, f"{MANTLE}/anthropic"),
        (MANTLE, False, f"{MANTLE}/v1 or {MANTLE}/openai/v1"),
        (f"{MANTLE}/anthropic", False, f"{MANTLE}/v1 or {MANTLE}/openai/v1"),
    ],
)
def test_a_wrong_base_url_of_bedrock_is_a_problem_with_the_right_one(url: str, messages: bool, written: str) -> None:
    problem = bedrock_problem(url, messages=messages)
    assert problem is not None
    assert problem.endswith(f": write {written}")


@pytest.mark.parametrize(
    ("url", "messages"),
    [
        (f"{RUNTIME}/anthropic", True),
        (f"{RUNTIME}/anthropic/v1/", True),
        (f"{RUNTIME}/openai/v1", False),
        (f"{MANTLE}/anthropic", True),
        (f"{MANTLE}/v1", False),
        (f"{MANTLE}/openai/v1", False),
        ("https://bedrock.example.com", True),
        ("http://[::1", True),
    ],
)
def test_base_urls_without_a_problem(url: str, messages: bool) -> None:
    assert bedrock_problem(url, messages=messages) is None
