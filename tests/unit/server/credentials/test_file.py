"""A token in a file that is replaced."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dragoman_server.config.provider import Secret
from dragoman_server.credentials.credential import SourceError
from dragoman_server.credentials.file import LOOK, FileToken


async def test_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "token").write_text("canary-1")
    assert (await FileToken("token").fetch()).value == Secret("canary-1")


async def test_a_file_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("canary-1\n")
    tokens = FileToken(str(file))
    first = await tokens.fetch()
    assert (first.value, first.seconds) == (Secret("canary-1"), LOOK)
    assert (await tokens.fetch()).value is first.value
    new = tmp_path / "new"
    new.write_text("canary-2")
    os.replace(new, file)
    assert (await tokens.fetch()).value == Secret("canary-2")


@pytest.mark.parametrize(
    ("content", "message"), [(None, "cannot be read"), ("", "is empty"), (" \n", "is empty"), ("canary 1", "no token")]
)
async def test_a_file_without_a_token(content: str | None, message: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)
    with pytest.raises(SourceError, match=message) as caught:
        await FileToken(str(file)).fetch()
    assert str(file) in str(caught.value)
    assert "canary" not in str(caught.value)
