"""The names and the imports of `import dragoman`: names pinned, no I/O library, no clock in the core."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest

import dragoman
import dragoman.aio
import dragoman.errors
import dragoman.gateway
import dragoman.threads
import dragoman.wire
import dragoman_server
import dragoman_server.config
from support.stages import some

ROOT = Path(__file__).parents[2]
PACKAGES = {"dragoman": ROOT / "engine" / "dragoman", "dragoman_server": ROOT / "server" / "dragoman_server"}
OUTER = {"aiohttp", "uvloop"}
IMPURE = {"asyncio", "logging", "random", "secrets", "socket", "ssl", "threading", "time", "uuid"} | OUTER


def modules(package: str) -> list[tuple[str, Path]]:
    """Every module of a package with its file."""
    found = []
    for path in sorted(PACKAGES[package].rglob("*.py")):
        parts = path.relative_to(PACKAGES[package].parent).with_suffix("").parts
        found.append((".".join(parts[:-1] if parts[-1] == "__init__" else parts), path))
    return found


CORE = [
    (name, path)
    for name, path in modules("dragoman")
    if not name.startswith(("dragoman.aio", "dragoman.threads.store"))
]


@cache
def imports(path: Path) -> frozenset[str]:
    """The absolute modules that a file imports anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.add(node.module)
    return frozenset(names)


def python(code: str) -> str:
    """Return what a fresh interpreter prints."""
    command = [sys.executable, "-I", "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT, timeout=600).stdout


EMBEDDERS = (
    "ClientRequestError",
    "Dialect",
    "Direction",
    "DragomanError",
    "ErrorResponse",
    "Failure",
    "Knobs",
    "Limits",
    "Loss",
    "LossCode",
    "Losses",
    "Profile",
    "StreamMachine",
    "Translation",
    "UpstreamError",
    "Usage",
    "builtin_profile",
    "direction",
    "error_response",
    "translate",
)
ERRORS = (
    "ClientRequestError",
    "DragomanError",
    "Failure",
    "FailureKind",
    "FailureOrigin",
    "LimitExceeded",
    "StreamTruncated",
    "TooMany",
    "Unsupported",
    "UpstreamError",
    "UpstreamProtocolError",
    "UpstreamStatusError",
    "UpstreamTimeout",
    "UpstreamUnreachable",
)
WIRE = ("Json", "SSEFrame", "SSEParser", "complete_frames", "json_dumps", "json_loads")
GATEWAYS = (
    "AUDIO_TOKENS",
    "BUILTIN_PROFILES",
    "CLIENT_DIALECTS",
    "COUNT_ENDPOINTS",
    "DEFAULT_DIALECT",
    "DEFAULT_KNOBS",
    "DEFAULT_LIMITS",
    "DIRECTIONS",
    "EFFORTS",
    "KNOBS",
    "MODEL_LIST_PATH",
    "PROFILE_FIELDS",
    "RESPONSE_CREATE",
    "RESPONSE_STEER",
    "STORED_DIALECT",
    "VENDOR_PROFILES",
    "ClientFrame",
    "CountEndpoint",
    "Event",
    "FormField",
    "ForwardedEvents",
    "ListedModel",
    "ModelPage",
    "ModelSizes",
    "OutputItems",
    "PromptAgreement",
    "PromptDigest",
    "ReplyOptions",
    "ReplyPipeline",
    "ResponseEnd",
    "ServiceReport",
    "Stage",
    "StoredReply",
    "TokenCounter",
    "TokenEstimate",
    "ValidationSample",
    "Violation",
    "WireFacts",
    "boundary_of",
    "changed_fields",
    "conversation_digest",
    "documented_sizes",
    "edit_members",
    "error_frame",
    "find_end",
    "for_client",
    "forward",
    "heartbeat_frame",
    "is_public_parameter",
    "is_secret",
    "join_items",
    "lower_cap",
    "model_list_query",
    "parse_body",
    "path_with",
    "quote",
    "read_end",
    "read_error",
    "read_model_list",
    "redact",
    "short_repr",
    "steer_failed_frame",
    "stream_id_tail",
    "tidy",
    "vocabulary_installed",
    "warm_up_frames",
    "written_duration",
)
SERVERS = (
    "Authorize",
    "Choose",
    "Config",
    "ConfigError",
    "Dialect",
    "ExchangeRecord",
    "Gateway",
    "Hooks",
    "OnEnd",
    "Principal",
    "Provider",
    "Route",
    "Secret",
    "Server",
    "Target",
    "config_from_environment",
    "load_config",
    "make_app",
    "parse_config",
    "setup",
)
CONFIGS = (
    "CredentialOptions",
    "Door",
    "KeyHash",
    "KeyLimits",
    "KeyRecord",
    "Overload",
    "Prices",
    "RetryOptions",
    "RouteTarget",
    "StoreOptions",
    "Telemetry",
    "WebSocketOptions",
)


@pytest.mark.parametrize(
    ("module", "names"),
    [
        (dragoman, EMBEDDERS),
        (dragoman.errors, ERRORS),
        (dragoman.wire, WIRE),
        (dragoman.gateway, GATEWAYS),
        (dragoman_server, SERVERS),
        (dragoman_server.config, CONFIGS),
    ],
    ids=lambda each: each.__name__ if isinstance(each, ModuleType) else "",
)
def test_the_public_names(module: ModuleType, names: tuple[str, ...]) -> None:
    assert module.__all__ == names
    assert all(getattr(module, name) is not None for name in names)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = module.Nothing


def test_an_embedder_needs_few_names() -> None:
    for module in (dragoman, dragoman_server):
        assert 12 <= len(module.__all__) <= 20
        named = {name for name, value in vars(module).items() if not isinstance(value, ModuleType)}
        helpers = {"Any", "TYPE_CHECKING", "import_module"}
        assert {name for name in named if not name.startswith("_")} - helpers == set(module.__all__)


def test_the_version_is_that_of_the_installed_package_and_is_read_when_it_is_used() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert dragoman.__version__ == project["version"] == version("dragoman")
    code = "import dragoman, sys; print('importlib.metadata' in sys.modules, dragoman.__version__)"
    assert python(code).split() == ["False", project["version"]]
    printed = subprocess.run(
        [sys.executable, "-m", "dragoman_server", "--version"], capture_output=True, text=True, check=True, timeout=120
    ).stdout
    assert printed.split()[:2] == ["dragoman", dragoman.__version__]


def test_importing_the_engine_imports_no_io_library() -> None:
    loaded = set(python("import dragoman, sys; print(*sys.modules)").split())
    assert "dragoman.translate_request" in loaded
    assert not {name for name in loaded if name.split(".")[0] in OUTER | {"dragoman_server", "asyncio", "ssl"}}


def test_the_public_names_of_the_asyncio_side() -> None:
    assert dragoman.aio.__all__ == (
        "DEFECT",
        "STOPPING",
        "AiohttpTransport",
        "AsgiServer",
        "BadVersion",
        "CallObserver",
        "ClientGone",
        "ConnectionLimits",
        "CorruptBody",
        "Decompressor",
        "Downstream",
        "DownstreamResponse",
        "EventLog",
        "EventStream",
        "FewPerTurn",
        "HeadTimeout",
        "HeartbeatSink",
        "HijackRunner",
        "HijackServer",
        "HijackableConnection",
        "Http11Transport",
        "LogBudget",
        "LogSink",
        "LogTail",
        "LoggedStream",
        "LongJobs",
        "MaskedWebSocketResponse",
        "NumberedStream",
        "ObservedTransport",
        "PlainResponse",
        "PoolOptions",
        "ProxyStream",
        "PushedResponse",
        "SlicedResponse",
        "StreamTimers",
        "Timeouts",
        "TooManyConnections",
        "TranslatedStream",
        "Transport",
        "UnsupportedEncoding",
        "Upload",
        "UpstreamRequest",
        "UpstreamResponse",
        "WebSocketStream",
        "abandon_body",
        "decompressor",
        "descriptor_failure",
        "descriptors_exhausted",
        "detached_request",
        "first_failure",
        "is_decompressed",
        "keep_reply",
        "limit_unsent",
        "next_turn",
        "numbered_ping_of",
        "off_loop",
        "open_proxy_stream",
        "ping_of",
        "send_continue",
        "send_log",
        "send_proxy_stream",
        "stream",
        "unsent",
        "with_body",
        "without_connection",
        "write_slices",
    )
    assert all(getattr(dragoman.aio, name).__module__.startswith("dragoman.") for name in dragoman.aio.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = dragoman.aio.Nothing  # type: ignore[attr-defined]


def test_importing_the_asyncio_side_does_not_import_aiohttp() -> None:
    """Neither do its names that do not need it."""
    code = "from dragoman.aio import Http11Transport, open_proxy_stream; import sys; print(*sys.modules)"
    loaded = set(python(code).split())
    assert "dragoman.aio.upstream.http11.transport" in loaded
    assert not {name for name in loaded if name.split(".")[0] in OUTER | {"dragoman_server"}}


def test_importing_the_threads_imports_no_database() -> None:
    loaded = set(python("import dragoman.threads, sys; print(*sys.modules)").split())
    assert "dragoman.threads" in loaded
    loaded |= set(python("from dragoman.threads import Thread, MemoryStore; import sys; print(*sys.modules)").split())
    assert "dragoman.threads.thread" in loaded
    assert not {name for name in loaded if name.split(".")[0] in OUTER | {"sqlite3", "cryptography", "asyncio"}}
    assert all(getattr(dragoman.threads, name).__module__.startswith("dragoman.") for name in dragoman.threads.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = dragoman.threads.Nothing  # type: ignore[attr-defined]


def test_a_plain_gateway_imports_what_it_uses() -> None:
    """Its memory is that of a gateway without the parts that are not configured."""
    code = """
import sys
import dragoman_server.cli.main
from dragoman_server.cli.commands import command_line
from dragoman_server.app import make_app
from dragoman_server.config.load import simulated_config
import dragoman_server.workers.serve
command_line().parse_args(["serve"])
make_app(simulated_config())
print(*sys.modules)
"""
    loaded = set(python(code).split())
    assert "dragoman_server.proxy.gateway" in loaded
    optional = (
        *("dragoman.aio.upstream.aiohttp_transport", "dragoman.dialects.openai.forwarded_events"),
        *("dragoman.dialects.responses.websocket", "dragoman.wire.multipart"),
        *("decimal", "sqlite3", "difflib", "importlib.metadata", "dragoman_bench", "dragoman.threads.thread"),
        *("dragoman_server.accounts.accounts", "dragoman_server.accounts.store.memory"),
        *("dragoman_server.accounts.store.interface", "dragoman_server.accounts.usage.sqlite_file"),
        *("dragoman_server.cli.check_config", "dragoman_server.cli.translate_files"),
        *("dragoman_server.cli.imports", "dragoman_server.cli.manage_keys", "dragoman_server.cli.replay_capture"),
        *("dragoman_server.endpoints.console", "dragoman_server.endpoints.stored_responses"),
        *("dragoman_server.endpoints.captures", "dragoman_server.proxy.forwarded_reply"),
        "dragoman_server.endpoints.diagnostics",
        *("dragoman_server.endpoints.websocket", "dragoman_server.observability.captures"),
        *("dragoman_server.observability.otlp", "dragoman_server.observability.tracing"),
        "dragoman_server.proxy.stored_responses",
    )
    assert not [name for name in optional if name in loaded]


def test_the_server_imports_the_public_names_only() -> None:
    """The gateway is built on what any gateway can be built on."""
    packages = (dragoman, dragoman.aio, dragoman.errors, dragoman.gateway, dragoman.threads, dragoman.wire)
    public = {module.__name__: {*module.__all__, "__version__"} for module in packages}
    for name, path in modules("dragoman_server"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "dragoman":
                assert node.module in public, f"{name} imports {node.module}"
                assert {alias.name for alias in node.names} <= public[node.module], name
            elif isinstance(node, ast.Import):
                assert not any(alias.name.startswith("dragoman.") for alias in node.names), name


def test_importing_the_server_leaves_the_event_loop_alone() -> None:
    loaded = set(python("import dragoman_server, sys; print(*sys.modules)").split())
    assert "uvloop" not in loaded


def test_the_core_reads_no_clock_rolls_no_dice_and_logs_nothing() -> None:
    for name, path in CORE:
        used = {module.split(".")[0] for module in imports(path)}
        assert not used & IMPURE, f"{name} imports {used & IMPURE}"
        assert "dragoman_server" not in used, name


def test_only_what_starts_a_process_knows_uvloop() -> None:
    users = {name for name, path in modules("dragoman_server") if "uvloop" in imports(path)}
    assert users <= {"dragoman_server.cli.main", "dragoman_server.workers.serve"}
    assert not [name for name, path in modules("dragoman") if "uvloop" in imports(path)]


def test_no_module_is_imported_by_its_folder() -> None:
    """`engine.dragoman` works from the checkout's root and would be a second copy of each module."""
    for package in PACKAGES:
        for name, path in modules(package):
            assert not {module for module in imports(path) if module.split(".")[0] in ("engine", "server")}, name
    assert not (ROOT / "engine" / "__init__.py").exists()
    assert not (ROOT / "server" / "__init__.py").exists()
    assert not [name for name in sys.modules if name.split(".")[0] in ("engine", "server")]


@pytest.mark.slow
@pytest.mark.law
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_every_module_imports_alone() -> None:
    """Each in a process that has imported nothing of ours but its package: an import cycle would show.

    The first stage has some of the modules; a cycle would show in `test_layers.py` too.
    """
    every = {package: [name for name, _ in modules(package) if not name.endswith("__main__")] for package in PACKAGES}
    names = {package: [*some(each, 15)] for package, each in every.items()}
    code = f"""
import aiohttp.web, importlib, os, sys
for package, names in {names!r}.items():
    importlib.import_module(package)
    for name in [name for name in names if name not in sys.modules]:
        child = os.fork()
        if not child:
            try:
                importlib.import_module(name)
            except BaseException as error:
                print(name, repr(error), flush=True)
                os._exit(1)
            os._exit(0)
        os.waitpid(child, 0)
"""
    assert python(code) == ""


def test_the_package_is_typed() -> None:
    assert all((folder / "py.typed").exists() for folder in PACKAGES.values())
