"""A real Chromium, driven by Playwright. Tests skip where there is no browser; none is downloaded."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from support.programs import installed

AXE = "axe-core@4.14.1"
CACHE = Path(os.environ.get("DRAGOMAN_CLIENTS_DIR", "~/.cache/dragoman-clients")).expanduser()
"""Where packages for tests are kept, as those of the real clients are."""
SECONDS = 60.0
"""Seconds that an element may take to appear."""


def executable() -> str:
    """The browser's path."""
    return installed("chromium", "chromium-browser", "google-chrome")


def axe_source() -> str:
    """The script of axe-core, fetched from npm once. Skips without it."""
    script = CACHE / AXE / "node_modules" / "axe-core" / "axe.min.js"
    if not script.is_file():
        if shutil.which("npm") is None:
            pytest.skip(f"{AXE} is not in {CACHE}, and npm is not installed")
        options = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-save", "--loglevel=error")
        script.parents[2].mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            ["npm", "install", *options, f"--prefix={script.parents[2]}", AXE], capture_output=True, timeout=120
        )
        if done.returncode or not script.is_file():
            pytest.skip(f"npm cannot install {AXE}: {done.stderr.decode()[-300:]}")
    return script.read_text("utf-8")


@asynccontextmanager
async def chromium() -> AsyncIterator[Any]:
    """A browser, which starts in a second and more."""
    playwright = pytest.importorskip("playwright.async_api")
    path = executable()
    async with playwright.async_playwright() as driver:
        # As root, which containers run as, Chromium has no sandbox.
        browser = await driver.chromium.launch(executable_path=path, args=["--no-sandbox"] if os.getuid() == 0 else [])
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def page(browser: Any, url: str, *others: str, **context: Any) -> AsyncIterator[Any]:
    """The page at `url` in a context of its own: other pages of the browser share neither storage nor cookies with it.

    Fails if the page logs an error, raises one, or sends a request to another host than its own and those of `others`.
    A request that fails is no error here.
    """
    problems: list[str] = []
    hosts = {urlsplit(each).netloc for each in (url, *others)}
    made = await browser.new_context(**context)
    try:
        made.set_default_timeout(SECONDS * 1000)
        new = await made.new_page()
        new.on("pageerror", lambda error: problems.append(f"error: {error}"))
        new.on("console", lambda line: problems.append(line.text) if _is_problem(line) else None)
        new.on("request", lambda sent: None if urlsplit(sent.url).netloc in hosts else problems.append(sent.url))
        await new.goto(url)
        yield new
    finally:
        await made.close()
    assert not problems


def _is_problem(line: Any) -> bool:
    failed = line.text.startswith("Failed to load resource") or "blocked by CORS policy" in line.text
    return line.type in ("error", "warning") and not failed
