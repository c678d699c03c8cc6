"""The service and the region that requests to a host of AWS are signed for."""

from __future__ import annotations

import pytest

from dragoman_server.config.aws_host import aws_host


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
        ("https://amazonaws.com", ("", "")),
        ("https://bedrock-runtime.us-east-1.amazonaws.com.evil.example", ("", "")),
        ("http://127.0.0.1:9/v1", ("", "")),
        ("http://[::1", ("", "")),
    ],
)
def test_hosts(url: str, found: tuple[str, str]) -> None:
    assert aws_host(url) == found
