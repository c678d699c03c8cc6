"""The names for gateways: those that few need are imported when they are used."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dragoman import gateway


@pytest.mark.parametrize("name", gateway.__all__)
def test_each_name_can_be_imported(name: str) -> None:
    assert getattr(gateway, name) is not None


def test_names_that_few_need_are_not_imported_before() -> None:
    code = "import sys, dragoman.gateway as it; old = set(sys.modules); it.TokenCounter; print({*sys.modules} - old)"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=120).stdout
    assert "dragoman.dialects.count_tokens" in found
