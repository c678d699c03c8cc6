"""The engine with a meter in it, which takes seconds to make."""

from __future__ import annotations

import pytest

from support.meter import Metered


@pytest.fixture(scope="session")
def metered() -> Metered:
    """Return the engine for all modules that count: what one of them changes in it must suit the others."""
    return Metered()
