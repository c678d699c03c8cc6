"""Tools that were sent under another name or as another kind, told by the name that the upstream saw (mapping §11)."""

from __future__ import annotations

from dragoman.canonical.request import Json
from dragoman.reply_context import ReplyContext


def renamed(context: ReplyContext) -> dict[str, str]:
    """Sent name → the client's, where they differ; a name in a namespace is told as `namespace.name`."""
    names = dict(context.names)
    for sent, tool in _bridged(context).items():
        name = f"{tool['namespace']}.{tool['name']}" if "namespace" in tool else tool["name"]
        if name != sent:
            names[sent] = name
    return names


def restored(context: ReplyContext) -> dict[str, Json]:
    """Sent name → what the client declared, for tools that were sent as another kind or out of their namespace."""
    return _bridged(context)


def _bridged(context: ReplyContext) -> dict[str, Json]:
    # What the bridge had made of a tool's name may have been fitted to the upstream's alphabet after it.
    fitted = {name: sent for sent, name in context.names.items()}
    out: dict[str, Json] = {}
    for flat, declared in context.tools.items():
        tool: Json = {"name": declared.name, "kind": declared.kind.value}
        if declared.namespace is not None:
            tool["namespace"] = declared.namespace
        out[fitted.get(flat, flat)] = tool
    return out
