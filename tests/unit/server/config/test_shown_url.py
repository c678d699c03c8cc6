"""URLs as they are shown, without their secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.load import load_config
from dragoman_server.config.shown_url import shown_url

LOCAL = '[providers.local]\ndialect = "chat"\nbase_url = "http://127.0.0.1:9000/v1"\n'


def _problems(path: Path, text: str) -> list[tuple[str, str]]:
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    return [(where.replace(str(path), "FILE"), what) for where, what in caught.value.problems]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("localhost:9000", "localhost:9000"),
        ("http://h/v1/chat/completions", "http://h/v1/chat/completions"),
        ("ftp://user:SECRET@h/v1", "ftp://***@h/v1"),
        ("https://user:SEC/RET@h/v1", "https://***@h/v1"),
        ("https://h/v1/responses?key=SECRET&v=SECRET", "https://h/v1/responses?key=***&v=***"),
        ("https://h/v1/responses?SECRET", "https://h/v1/responses?***"),
        ("http://h/v1#SECRET", "http://h/v1#***"),
        ("SECRETSECRETSECRETSECRET", "***"),
        ("sk-SECRET-SECRET", "***"),
    ],
)
def test_a_base_url_is_shown_without_its_secrets(tmp_path: Path, url: str, shown: str) -> None:
    ((where, what),) = _problems(tmp_path / "a.toml", LOCAL.replace("http://127.0.0.1:9000/v1", url))
    assert where == "providers.local.base_url"
    assert what.endswith(f'; got "{shown}"')
    assert "SECRET" not in what


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("alt=sse", "alt=sse"),
        ("alt=sse&key=SECRET&api-version=2026-03-01", "alt=sse&key=***&api-version=2026-03-01"),
        ("api-version=2026-03-01-preview&beta=true", "api-version=2026-03-01-preview&beta=true"),
        ("api-version=SECRET&alt=SECRET&beta=SECRET", "api-version=***&alt=***&beta=***"),
        ("alt=sse=SECRET", "alt=***"),
        ("salt=sse&alt=sse%26SECRET", "salt=***&alt=***"),
    ],
)
def test_parameters_that_hold_no_secret_are_shown(query: str, shown: str) -> None:
    assert shown_url(f"https://h/v1?{query}") == f"https://h/v1?{shown}"


def test_a_url_cannot_forge_a_line() -> None:
    assert shown_url("http://h/\nx") == r"http://h/\nx"
