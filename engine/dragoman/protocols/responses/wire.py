"""What the responses modules share."""

from __future__ import annotations

from typing import Final

DIALECT: Final = "responses"
