"""Free memory of a process is returned to the system."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

_HELD = """
from dragoman_server.observability.free_memory import return_free_memory
from dragoman_server.observability.metrics import resident_memory

blocks, between = [], []
for number in range(2000):
    blocks.append(b"x" * 100_000)
    between.append(bytearray(600))
del blocks
before = resident_memory()
return_free_memory()
print(before, resident_memory())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library than glibc")
def test_blocks_between_objects_in_use_are_returned() -> None:
    done = subprocess.run([sys.executable, "-c", _HELD], capture_output=True, text=True, check=True)
    before, after = map(int, done.stdout.split())
    assert before > 200_000_000
    assert after < before / 2
