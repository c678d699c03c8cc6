"""The layers of both packages: which module may import which, and that no modules import each other in a circle."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from dragoman import Dialect

ROOT = Path(__file__).parents[2]
ENGINE, SERVER = ROOT / "engine" / "dragoman", ROOT / "server" / "dragoman_server"

ENGINE_LAYERS = (
    ("dragoman.short_repr", "dragoman.lazy_names"),
    ("dragoman.errors", "dragoman.limits"),
    ("dragoman.dialects.count_endpoint",),
    ("dragoman.dialects.facts",),
    ("dragoman.dialects.openai.facts", "dragoman.dialects.generate.count_tokens"),
    tuple(f"dragoman.dialects.{dialect}.facts" for dialect in Dialect),
    ("dragoman.dialects",),
    ("dragoman.losses",),
    ("dragoman.canonical",),
    ("dragoman.wire",),
    ("dragoman.stages.violation",),
    ("dragoman.stages.grammar",),
    ("dragoman.dialects.lazy_mapping",),
    ("dragoman.profiles",),
    ("dragoman.knobs",),
    ("dragoman.reasoning", "dragoman.tools"),
    ("dragoman.reply_context",),
    ("dragoman.dialects.errors",),
    ("dragoman.tokens",),
    ("dragoman.stages", "dragoman.policies"),
    ("dragoman.dialects.shared",),
    ("dragoman.dialects.openai",),
    ("dragoman.dialects.codec",),
    tuple(f"dragoman.dialects.{dialect}" for dialect in Dialect),
    ("dragoman.dialects.all_codecs",),
    (
        "dragoman.dialects.directions",
        "dragoman.dialects.count_tokens",
        "dragoman.dialects.http_errors",
        "dragoman.dialects.passthrough_request",
        "dragoman.dialects.common_prompt_prefix",
    ),
    ("dragoman.dialects.convert_request",),
    ("dragoman.dialects.whole_reply",),
    ("dragoman.translation",),
    ("dragoman.translate_request",),
    ("dragoman",),
    ("dragoman.aio", "dragoman.threads", "dragoman.gateway"),
)
SERVER_LAYERS = (
    ("dragoman_server.config.config_error", "dragoman_server.config.file_paths"),
    (
        "dragoman_server.config.secret_file",
        "dragoman_server.config.value_problems",
        "dragoman_server.config.references",
    ),
    ("dragoman_server.config.toml_reader",),
    ("dragoman_server.config.setting", "dragoman_server.config.store_urls"),
    ("dragoman_server.accounts.usage.price",),
    ("dragoman_server.accounts.usage.rates",),
    (
        "dragoman_server.accounts.limits",
        "dragoman_server.accounts.store.options",
        "dragoman_server.accounts.usage.options",
        "dragoman_server.accounts.usage.price_table",
    ),
    ("dragoman_server.accounts.keys",),
    ("dragoman_server.config",),
    (
        "dragoman_server.observability.attempt_usage",
        "dragoman_server.observability.exchange_record",
        "dragoman_server.observability.metric_families",
    ),
    ("dragoman_server.proxy.read_response",),
    ("dragoman_server.credentials",),
    ("dragoman_server.routing",),
    ("dragoman_server.config.lint",),
    ("dragoman_server.receipt",),
    ("dragoman_server.observability",),
    ("dragoman_server.accounts",),
    ("dragoman_server.workers.drain", "dragoman_server.workers.peer_workers"),
    ("dragoman_server.proxy.betas", "dragoman_server.proxy.error_response", "dragoman_server.proxy.limits"),
    ("dragoman_server.proxy.auth", "dragoman_server.proxy.cors", "dragoman_server.proxy.request_form"),
    ("dragoman_server.proxy.web_origins",),
    ("dragoman_server.proxy.loaded_config",),
    ("dragoman_server.draft",),
    # Parts of `Services`, and what they use.
    ("dragoman_server.proxy",),
    ("dragoman_server.services",),
    ("dragoman_server.scope",),
    (
        "dragoman_server.proxy.attached.attached_calls",
        "dragoman_server.proxy.issuer_search",
        "dragoman_server.proxy.refusal",
        "dragoman_server.proxy.upstream_runs",
    ),
    (
        "dragoman_server.proxy.attached.background_transport",
        "dragoman_server.proxy.output_cap_retry",
        "dragoman_server.proxy.send_attempt",
    ),
    ("dragoman_server.steps",),
    ("dragoman_server.pipeline",),
    (
        "dragoman_server.proxy.attempts",
        "dragoman_server.proxy.exchange",
        "dragoman_server.proxy.forwarded_reply",
        "dragoman_server.proxy.only_model",
        "dragoman_server.proxy.request_failure",
    ),
    ("dragoman_server.proxy.attached.attached_exchange",),
    ("dragoman_server.proxy.background", "dragoman_server.proxy.request_handler"),
    ("dragoman_server.proxy.resumable.streams",),
    ("dragoman_server.proxy.gateway",),
    ("dragoman_server.endpoints", "dragoman_server.simulator"),
    ("dragoman_server.app",),
    ("dragoman_server.workers",),
    ("dragoman_server.cli",),
    ("dragoman_server.asgi", "dragoman_server.__main__"),
    ("dragoman_server",),
)
"""From the lowest to the highest. A module imports its own package and lower layers, never a neighbour in its layer.

`dragoman.dialects` is the module of that name, which only has `Dialect`; its submodules have layers of their own.
"""
RANKS = {
    package: rank for layers in (ENGINE_LAYERS, SERVER_LAYERS) for rank, layer in enumerate(layers) for package in layer
}


def modules(folder: Path) -> dict[str, Path]:
    found = {}
    for path in folder.rglob("*.py"):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules(ENGINE) | modules(SERVER)


def statements(node: ast.AST, *, types: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports in a module, those in functions too; with `types` also those that only a type checker executes."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue
        if not types and isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child
        yield from statements(child, types=types)


def imports(name: str) -> set[str]:
    """The modules of the same package that a module imports: in the server also for types alone."""
    package = name.partition(".")[0]
    found = set()
    for statement in statements(ast.parse(MODULES[name].read_text()), types=package == SERVER.name):
        if isinstance(statement, ast.Import):
            names = [alias.name for alias in statement.names]
        else:
            assert not statement.level, f"{name} has a relative import"
            inside = [f"{statement.module}.{alias.name}" for alias in statement.names]
            names = [each if each in MODULES else str(statement.module) for each in inside]
        found |= {each for each in names if each in MODULES and each.partition(".")[0] == package}
    return found - {name}


@cache
def graph() -> dict[str, set[str]]:
    """Return the imports of each module."""
    return {name: imports(name) for name in MODULES}


def layer_of(name: str) -> str:
    """The layer to which a module belongs: the longest that it begins with."""
    if name in RANKS:
        return name
    packages = [package for package in RANKS if package.count(".") and name.startswith(package + ".")]
    return max(packages, key=len)


def test_a_module_imports_lower_layers_only() -> None:
    wrong = []
    for name in sorted(MODULES):
        own = layer_of(name)
        assert not name.startswith("dragoman.dialects.") or own != "dragoman.dialects", (
            f"{name} has no layer of its own"
        )
        others = {imported: layer_of(imported) for imported in sorted(graph()[name])}
        wrong += [
            f"{name} imports {imported}"
            for imported, other in others.items()
            if other != own and RANKS[other] >= RANKS[own]
        ]
    assert wrong == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    done: set[str] = set()

    def visit(name: str, way: tuple[str, ...]) -> None:
        assert name not in way, " → ".join((*way[way.index(name) :], name))
        if name not in done:
            for imported in graph()[name]:
                visit(imported, (*way, name))
            done.add(name)

    for name in graph():
        visit(name, ())


@pytest.mark.parametrize(("folder", "most"), [(ENGINE, 23), (SERVER, 21)], ids=["engine", "server"])
def test_a_package_has_few_entries(folder: Path, most: int) -> None:
    entries = [path.name for path in folder.iterdir() if path.name != "__pycache__"]
    assert len(entries) <= most, sorted(entries)
