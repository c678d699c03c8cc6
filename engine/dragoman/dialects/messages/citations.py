"""Citations of the OpenAI dialects for Messages clients, and back again (mapping §4.2).

The one form that names a web page is `web_search_result_location`. Its `encrypted_index` means something to Anthropic
only, so here it holds the original annotation in an envelope: an OpenAI upstream gets it back as it was, and for every
other one it is left out. `cited_text` stays empty: an annotation does not quote its source.
"""

from __future__ import annotations

from typing import Any

from dragoman.canonical.events import Citation
from dragoman.canonical.request import Json
from dragoman.dialects.messages.wire import DIALECT, read_citation
from dragoman.reasoning.envelope import Envelope, unwrap_citation


def write_citation(citation: Citation, envelope: Envelope | None) -> Json | None:
    """A citation of a reply, or None if it names no web page and is not Messages' own."""
    if citation.origin == DIALECT:
        return citation.native or None
    if citation.url is None or envelope is None:
        return None
    return {
        "type": "web_search_result_location",
        "cited_text": "",
        "url": citation.url,
        "title": citation.title,
        "encrypted_index": envelope.wrap(citation.origin, citation.native),
    }


def read_request_citation(block: Json) -> Citation:
    """A citation of a request's text. One of another dialect has that as its origin again.

    The origin is empty if the envelope was damaged on its way: such a citation can be sent to no upstream.
    """
    index = block.get("encrypted_index")
    envelope = unwrap_citation(index) if type(index) is str else None
    if envelope is None:
        return read_citation(block)
    native = envelope.block
    if native is None:
        return Citation("", {})
    annotation = native.get("url_citation", native)  # Chat nests what Responses has flat
    title, start, end = annotation.get("title"), annotation.get("start_index"), annotation.get("end_index")
    return Citation(
        envelope.dialect,
        native,
        annotation["url"],
        title if type(title) is str else None,
        start if type(start) is int else None,
        end if type(end) is int else None,
    )


def without_envelopes(citations: list[Any]) -> list[Any]:
    """The citations of a request's text that a Messages upstream may be sent: those that hold no envelope."""
    return [citation for citation in citations if not _is_enveloped(citation)]


def _is_enveloped(citation: Any) -> bool:
    index = citation.get("encrypted_index") if type(citation) is dict else None
    return type(index) is str and unwrap_citation(index) is not None
