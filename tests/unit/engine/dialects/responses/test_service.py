"""The names that only Responses has: `dragoman.gateway` loads them when the first is used."""

from __future__ import annotations

import subprocess
import sys

from dragoman import gateway
from dragoman.dialects.responses import service

MODULE = "dragoman.dialects.responses.service"
PROGRAM = f"""
import sys
from dragoman import gateway
before = {MODULE!r} in sys.modules
gateway.read_end
print(before, {MODULE!r} in sys.modules)
"""


def test_the_gateway_has_each_name() -> None:
    assert [name for name in service.__all__ if getattr(gateway, name) is not getattr(service, name)] == []


def test_it_is_loaded_when_it_is_used() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
