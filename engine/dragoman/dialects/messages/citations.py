"""Citations of the OpenAI dialects in replies for Messages clients, and their way back in requests (mapping §4.2).

`web_search_result_location` is the only form that names a web page. Only Anthropic can read its `encrypted_index`, so
here it holds the original annotation in an envelope. In a later request the annotation is restored for OpenAI
upstreams; Messages upstreams do not receive it. `cited_text` is empty, because an annotation does not quote its source.
"""

from __future__ import annotations

from typing import Any

from dragoman.canonical.events import Citation
from dragoman.canonical.request import Json
from dragoman.dialects.messages.stop_and_usage import DIALECT
from dragoman.errors import Path
from dragoman.losses import LossCode, Losses
from dragoman.reasoning.envelope import Envelope, unwrap_citation


def write_citation(citation: Citation, envelope: Envelope | None) -> Json | None:
    """Return a citation for a reply, or None if it neither came from Messages nor names a web page.

    Without `envelope` only citations from Messages are written.
    """
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
    """Return the canonical form of a citation in a request. One in an envelope has its original dialect as its origin.

    If the envelope is damaged, the origin is empty, and no upstream receives the citation.
    """
    index = block.get("encrypted_index")
    envelope = unwrap_citation(index) if type(index) is str else None
    if envelope is None:
        return read_citation(block)
    native = envelope.block
    if native is None:
        return Citation("", {})
    annotation = native.get("url_citation", native)  # Chat nests the fields that Responses has flat
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
    """Return the citations of a request that a Messages upstream may receive: those without an envelope."""
    kept = []
    for citation in citations:
        index = citation.get("encrypted_index") if type(citation) is dict else None
        if type(index) is not str or unwrap_citation(index) is None:
            kept.append(citation)
    return kept


_WEB_SCHEMES = ("http://", "https://")


def read_citation(obj: Any) -> Citation:
    """Return the canonical form of a text citation.

    Its URL is that of a web search location, or the source of a search result if that is a URL. Offsets are not kept:
    they count in the source, canonical ones in the reply.
    """
    if type(obj) is not dict:
        return Citation(DIALECT, {})
    url, title = obj.get("url"), obj.get("title")
    if obj.get("type") == "search_result_location" and str(source := obj.get("source")).startswith(_WEB_SCHEMES):
        url = source
    return Citation(
        DIALECT, obj, url if isinstance(url, str) else None, title if isinstance(title, str) else None, None, None
    )


def known_citations(citations: Any, at: Path | str, losses: Losses) -> list[Json]:
    """Return the citations of a reply's text that are objects. Others are recorded as lost, unless they are empty."""
    found = [entry for entry in citations if type(entry) is dict and entry] if type(citations) is list else []
    if type(citations) is not list or any(entry and type(entry) is not dict for entry in citations):
        losses.add_once(LossCode.CITATIONS, at, "not an array of objects")
    return found


def write_citations(citations: list[Citation]) -> list[Json]:
    """Return the citations of a request that came from Messages.

    A Messages upstream accepts no others: it requires an encrypted index of its own, or a position in a document of the
    request (mapping §4.2).
    """
    return [citation.native for citation in citations if citation.origin == DIALECT and citation.native]
