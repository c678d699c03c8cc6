"""Exchanges out of checkouts: cassettes of VCR (Python and Ruby), JSON fixtures, event streams as text.

`DRAGOMAN_RECORDED` names the checkouts, separated as in PATH: a work tree, or a git directory without one. A file that
is not one of these, or not of one of the four dialects, is skipped.
"""

from __future__ import annotations

import base64
import gzip
import itertools
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

ENVIRONMENT = "DRAGOMAN_RECORDED"
_LARGEST = 4_000_000
"""Bytes of the largest file that is read."""
_ENDPOINTS = {"/chat/completions": "chat", "/messages": "messages", "/responses": "responses"}
_FOLDERS = {"chat-completions": "chat", "anthropic": "messages", "responses": "responses", "google": "generate"}
_VENDORS = {
    "api.openai.com": "OpenAI",
    "api.anthropic.com": "Anthropic",
    "openai.azure.com": "Azure OpenAI",
    "models.inference.ai.azure.com": "Azure",
    "services.ai.azure.com": "Azure",
    "cognitiveservices.azure.com": "Azure OpenAI",
    "openrouter.ai": "OpenRouter",
    "api.groq.com": "Groq",
    "api.mistral.ai": "Mistral",
    "api.deepseek.com": "DeepSeek",
    "api.x.ai": "xAI",
    "api.perplexity.ai": "Perplexity",
    "api.cerebras.ai": "Cerebras",
    "router.huggingface.co": "Hugging Face",
    "api.together.xyz": "Together",
    "api.fireworks.ai": "Fireworks",
    "api.moonshot.ai": "Moonshot",
    "dashscope": "Alibaba",
    "generativelanguage.googleapis.com": "Google",
    "aiplatform.googleapis.com": "Google Vertex",
    "amazonaws.com": "Amazon Bedrock",
    "api.aws": "Amazon Bedrock",
    "api.z.ai": "Z.AI",
    "snowflakecomputing.com": "Snowflake",
    "databricks": "Databricks",
    "api.cohere": "Cohere",
    "localhost": "local servers",
    "127.0.0.1": "local servers",
}
_PACKAGES = {"openai": "OpenAI", "anthropic": "Anthropic", "azure": "Azure OpenAI", "xai": "xAI", "groq": "Groq"}
_PACKAGES |= {"mistral": "Mistral", "deepseek": "DeepSeek", "moonshotai": "Moonshot", "alibaba": "Alibaba"}
_PACKAGES |= {
    "perplexity": "Perplexity",
    "google": "Google",
    "google-vertex": "Google Vertex",
    "togetherai": "Together",
    "amazon-bedrock": "Amazon Bedrock",
}


@dataclass(frozen=True, slots=True)
class Exchange:
    """One recorded request and its reply. Either can be empty."""

    source: str
    vendor: str
    dialect: str
    status: int = 200
    request: bytes = b""
    reply: bytes = b""

    @property
    def streamed(self) -> bool:
        """Return whether the reply is an event stream."""
        return self.reply.lstrip().startswith((b"data:", b"event:", b":", b"id:"))


def checkouts() -> list[Path]:
    """The checkouts that the environment names."""
    return [Path(name) for name in os.environ.get(ENVIRONMENT, "").split(os.pathsep) if name]


def exchanges(checkout: Path) -> Iterator[Exchange]:
    """Every exchange of a checkout, the same bytes once."""
    seen: set[int] = set()
    for path, data in _files(checkout):
        for exchange in of_file(path, data):
            key = hash((exchange.dialect, exchange.status, exchange.request, exchange.reply))
            if key not in seen:
                seen.add(key)
                yield exchange


def of_file(path: str, data: bytes) -> list[Exchange]:
    """The exchanges of one file by its relative path."""
    try:
        if path.endswith((".yaml", ".yml")):
            return list(_cassette(path, yaml.load(data, getattr(yaml, "CSafeLoader", yaml.SafeLoader))))
        if path.endswith((".chunks.txt", ".sse")):
            return list(_stream_text(path, data))
        return list(_fixture(path, json.loads(data))) if path.endswith(".json") else []
    except (yaml.YAMLError, OSError, ValueError, RecursionError):
        return []


def _files(checkout: Path) -> Iterator[tuple[str, bytes]]:
    if not (checkout / "HEAD").is_file():
        for path in sorted(checkout.rglob("*")):
            name = path.relative_to(checkout).as_posix()
            if path.is_file() and _wanted(name) and path.stat().st_size <= _LARGEST:
                yield name, path.read_bytes()
        return
    git = ["git", f"--git-dir={checkout}"]
    listed = subprocess.run([*git, "ls-tree", "-r", "-z", "HEAD"], capture_output=True, check=True).stdout.decode()
    entries = [line.split("\t") for line in listed.split("\0") if line]
    objects = {name: about.split()[2] for about, name in entries if _wanted(name)}
    with tempfile.TemporaryFile() as wanted:
        wanted.write("".join(f"{digest}\n" for digest in objects.values()).encode())
        wanted.seek(0)
        with subprocess.Popen([*git, "cat-file", "--batch"], stdin=wanted, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            for name in objects:
                head = process.stdout.readline().split()
                if head[-1] == b"missing":  # A snapshot may lack its largest files.
                    continue
                data = process.stdout.read(int(head[2]) + 1)[:-1]
                if len(data) <= _LARGEST:
                    yield name, data


def _wanted(name: str) -> bool:
    if name.endswith((".yaml", ".yml")):
        return "cassette" in name
    return name.endswith((".chunks.txt", ".sse")) or (
        name.endswith(".json") and ("__fixtures__/" in name or "payloads/snapshots/" in name)
    )


def _cassette(path: str, document: Any) -> Iterator[Exchange]:
    if not isinstance(document, dict):
        return
    for interaction in document.get("interactions") or document.get("http_interactions") or ():
        request, response = interaction.get("request") or {}, interaction.get("response") or {}
        parts = urlsplit(str(request.get("uri", "")))
        dialect = next((d for end, d in _ENDPOINTS.items() if parts.path.rstrip("/").endswith(end)), None)
        if parts.path.endswith((":generateContent", ":streamGenerateContent")):
            dialect = "generate"
        if dialect is None or "/threads/" in parts.path or str(request.get("method", "")).upper() != "POST":
            continue
        status = response.get("status") or {}
        code = status.get("code", 200) if isinstance(status, dict) else status
        yield Exchange(path, vendor_of(parts.netloc), dialect, int(code), _body(request), _body(response))


def _body(message: dict[str, Any]) -> bytes:
    if "parsed_body" in message:
        parsed = message["parsed_body"]
        return parsed.encode() if isinstance(parsed, str) else json.dumps(parsed).encode()
    body = message.get("body")
    if isinstance(body, dict):
        if "base64_string" in body:
            return base64.b64decode(body["base64_string"])
        body = body.get("string")
    if isinstance(body, str):
        return body.encode()
    return gzip.decompress(body) if body and body[:2] == b"\x1f\x8b" else body or b""


def vendor_of(host: str) -> str:
    """The vendor's name by the host of its API."""
    return next((vendor for part, vendor in _VENDORS.items() if part in host), host.partition(":")[0] or "unknown")


def _fixture(path: str, document: Any) -> Iterator[Exchange]:
    """A JSON file: a request or a reply of a folder that is named after its dialect, or a reply by its own looks."""
    *_, folder, name = path.split("/")
    if folder in _FOLDERS and "payloads/snapshots/" in path:
        dialect = _FOLDERS[folder]
        vendor = {"messages": "Anthropic", "generate": "Google"}.get(dialect, "OpenAI")
        if name.endswith("request.json"):
            yield Exchange(path, vendor, dialect, request=json.dumps(document).encode())
        elif name.endswith("response-streaming.json") and isinstance(document, list):
            yield Exchange(path, vendor, dialect, reply=_as_stream(dialect, document))
        elif name.endswith("response.json"):
            yield Exchange(path, vendor, dialect, reply=json.dumps(document).encode())
    elif (found := _dialect_of(document)) is not None:
        yield Exchange(path, _package(path), found, reply=json.dumps(document).encode())


def _stream_text(path: str, data: bytes) -> Iterator[Exchange]:
    """A text with an event's JSON on each line, or an event stream as it was."""
    text = data.decode("utf-8")
    if "data:" in text[:200]:
        frames = [line[5:].strip() for line in text.split("\n") if line.startswith("data:")]
    else:
        frames = [line for line in text.split("\n") if line.strip()]
    events = [json.loads(frame) for frame in frames if frame != "[DONE]"]
    dialect = next((found for event in events if (found := _dialect_of(event))), None)
    if dialect is not None:
        # A file can hold the streams of several requests.
        begins = [at for at, event in enumerate(events) if event.get("type") in ("message_start", "response.created")]
        for start, stop in itertools.pairwise([*(begins or [0]), len(events)]):
            yield Exchange(path, _package(path), dialect, reply=_as_stream(dialect, events[start:stop]))


def _dialect_of(event: Any) -> str | None:
    if not isinstance(event, dict):
        return None
    kind, made = str(event.get("type") or ""), str(event.get("object") or "")
    if type(event.get("candidates")) is list and ("modelVersion" in event or "usageMetadata" in event):
        return "generate"
    if made.startswith("chat.completion") or ("choices" in event and not made.startswith("text")):
        return "chat"
    if kind == "message_start" or (kind == "message" and event.get("role") == "assistant" and "usage" in event):
        return "messages"
    return "responses" if kind.startswith("response.") or made == "response" else None


def _as_stream(dialect: str, events: list[Any]) -> bytes:
    lines = []
    for event in events:
        name = (
            f"event: {event['type']}\n"
            if dialect not in ("chat", "generate") and isinstance(event, dict) and "type" in event
            else ""
        )
        lines.append(f"{name}data: {json.dumps(event)}\n\n")
    return "".join([*lines, *(["data: [DONE]\n\n"] if dialect == "chat" else [])]).encode()


def _package(path: str) -> str:
    return next((_PACKAGES[part] for part in path.split("/") if part in _PACKAGES), "other")
