"""The files of the page: their headers, and that they need nothing from elsewhere."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from dragoman_server.config.schema import Config
from dragoman_server.endpoints.console.static_files import FOLDER, TYPES
from support.gateways import CHAT, config_for, gate

FILES = sorted(path for path in FOLDER.iterdir() if path.is_file())
PAGE = (FOLDER / "index.html").read_text("utf-8")


def with_ui() -> Config:
    config = config_for("http://127.0.0.1:9/v1", CHAT)
    return replace(config, server=replace(config.server, ui=True))


async def test_the_page_has_strict_headers() -> None:
    async with gate(with_ui()) as up, up.session.get(f"{up.url}/ui") as response:
        assert response.status == 200
        assert str(response.url) == f"{up.url}/ui/"
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert response.headers["x-content-type-options"] == "nosniff"
        assert await response.text() == PAGE


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.name))
async def test_each_file_is_served_with_its_type(path: object) -> None:
    name = getattr(path, "name", "")
    async with gate(with_ui()) as up:
        async with up.session.get(f"{up.url}/ui/{name}") as response:
            assert response.status == 200
            assert response.content_type == TYPES[name[name.index(".") :]]
            tag = response.headers["etag"]
        async with up.session.get(f"{up.url}/ui/{name}", headers={"if-none-match": tag}) as response:
            assert response.status == 304


@pytest.mark.parametrize("name", ["x.js", "..%2Fconsole.py", "console.py", "%2e%2e/app.py", "main.js/"])
async def test_other_files_are_not_served(name: str) -> None:
    async with gate(with_ui()) as up, up.session.get(f"{up.url}/ui/{name}") as response:
        assert response.status == 404


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.name))
def test_no_file_needs_another_host_or_an_inline_script(path: object) -> None:
    text = (FOLDER / getattr(path, "name", "")).read_text("utf-8")
    urls = set(re.findall(r"https?://[^\s\"'`]+", text))
    assert urls <= {"http://www.w3.org/2000/svg"}
    for banned in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "localStorage",
        ' style="',
    ):
        assert banned not in text


def test_the_page_has_no_inline_script() -> None:
    assert re.findall(r"<script(?![^>]* src=)", PAGE) == []
    assert re.findall(r"\son[a-z]+=", PAGE) == []
