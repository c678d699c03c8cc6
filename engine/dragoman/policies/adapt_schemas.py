"""Adapts the schemas of tools and of the response format to the upstream (mapping §6.1, §7.3).

Only keywords that the profile lists as rejected are changed. A rejected schema loses the whole request; a looser schema
costs at most a wrong argument, which the client's own check finds. The result depends on the schema alone, as it is the
beginning of the cached prefix.
"""

from __future__ import annotations

from dragoman.canonical.request import Json, Request
from dragoman.errors import Path
from dragoman.losses import LossCode, Losses
from dragoman.policies.schema_keywords import SchemaTree, is_complete
from dragoman.policies.schema_union import ROOT_WORDS, SizeBudget, one_object
from dragoman.profiles.profile import Profile


def adapt_schemas(request: Request, profile: Profile, losses: Losses) -> None:
    """Rewrite the schemas of function tools and of the output format, in place, a row for each kind of change.

    Raises `Unsupported` for one that grows too large once its references are written out.
    """
    unions = profile.schema_root_union
    rewrites = bool(profile.schema_refused) or not profile.schema_refs
    strictness = profile.strict_schemas != "any" or bool(profile.strict_refused)
    if unions and not rewrites and not strictness:
        return
    room = SizeBudget()
    for tool in request.tools:
        schema = tool.schema
        if schema is None or tool.kind != "function":
            continue
        if not unions and not ROOT_WORDS.isdisjoint(schema):
            schema = tool.schema = _flattened(schema, tool.at, room, losses)
        if rewrites:
            schema = tool.schema = _rewritten(schema, tool.at, room, profile, losses)
        if strictness and tool.strict is True:
            tool.schema, tool.strict = _strict(schema, tool.at, room, profile, losses)
    form = request.format
    if form is None or form.schema is None:
        return
    if rewrites:
        form.schema = _rewritten(form.schema, form.at, room, profile, losses)
    # Where only closed schemas are taken, an answer's schema is always held to the letter.
    if strictness and (form.strict is True or profile.strict_schemas == "closed"):
        form.schema, strict = _strict(form.schema, form.at, room, profile, losses)
        if not strict:
            form.strict = False


def _flattened(schema: Json, at: Path, room: SizeBudget, losses: Losses) -> Json:
    """Return the root as one object. A root that cannot be an object is left to the writer and the upstream."""
    flat = one_object(schema, room)
    if flat is None:
        return schema
    words = ", ".join(word for word in schema if word in ROOT_WORDS)
    losses.add(LossCode.SCHEMA_SANITISED, at, f"its root ({words}) became one object of all properties")
    return flat


def _rewritten(schema: Json, at: Path, room: SizeBudget, profile: Profile, losses: Losses) -> Json:
    refused, refs = profile.schema_refused, profile.schema_refs
    return _note(SchemaTree(schema, at, room, refused=refused, strict=False, refs=refs, closed=False), at, losses)


def _strict(schema: Json, at: Path, room: SizeBudget, profile: Profile, losses: Losses) -> tuple[Json, bool]:
    """A schema that is held to the letter, and whether it can be."""
    if profile.strict_schemas == "complete" and not is_complete(schema):
        losses.add(LossCode.SCHEMA_STRICTNESS, at, "not strict: some object is open or has optional properties")
        return schema, False
    closed = profile.strict_schemas == "closed"
    if closed or profile.strict_refused:
        tree = SchemaTree(schema, at, room, refused=profile.strict_refused, strict=True, refs=True, closed=closed)
        schema = _note(tree, at, losses)
    return schema, True


def _note(tree: SchemaTree, at: Path, losses: Losses) -> Json:
    written = tree.rewritten()
    for done, times in tree.changes.items():
        losses.add(LossCode.SCHEMA_SANITISED, at, done if times == 1 else f"{done} ({times} times)")
    return written
