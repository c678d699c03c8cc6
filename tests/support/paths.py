"""Folders of the checkout that tests read."""

from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
FIXTURES = TESTS / "fixtures"
"""Recorded requests of real clients."""
TRANSCRIPTS = TESTS / "golden" / "transcripts"
"""Streams as upstreams send them: `<upstream>/<case>.sse`."""
STREAMS = TESTS / "golden" / "streams"
"""Streams as clients receive them: `<client>_from_<upstream>/<case>.sse`."""
