"""A count of the work that the engine does, in units that do not depend on the machine.

The engine's modules are imported a second time with their source rewritten: each statement, each step of a loop and
each call adds to a count, and what C does behind one expression adds the length that it goes through (`x in a_list`,
`list.insert`, slices, sums of lists, `[*a, *b]`, `islice` from the start, equality of objects, the text that an
expression matches). So a quadratic path
shows as one, also where all of it happens in C, and the count of the same input is always the same.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import pkgutil
import re
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence, Sized
from itertools import islice
from types import BuiltinFunctionType, MethodWrapperType, ModuleType
from typing import Any

_FREE_NAMES = frozenset({
    "type", "len", "isinstance", "issubclass", "super", "range", "id", "getattr", "hasattr", "callable", "iter", "next",
    "enumerate", "zip", "reversed", "cast", "field", "TypeVar", "ord", "chr", "int", "bool", "float",
})  # fmt: skip
"""Functions whose cost does not depend on what they are given."""
_FREE_METHODS = frozenset({
    "append", "add", "get", "items", "keys", "values", "setdefault", "popleft", "appendleft", "clear", "discard",
})  # fmt: skip
_WITHIN = frozenset({"find", "rfind", "index", "rindex", "count"})
_OF_GIVEN = frozenset({"startswith", "endswith", "extend", "update"})
"""Methods whose cost is that of what they are given and not of what they are called on."""
_TEXTS = (str, bytes, bytearray, memoryview)
_SIZED: tuple[type, ...] = (
    list,
    tuple,
    dict,
    set,
    frozenset,
    deque,
    *_TEXTS,
    type({}.keys()),
    type({}.values()),
    type({}.items()),
)
_SHORT = 16
"""Characters or bytes that C copies or compares as one unit."""


class Meter:
    """The count, and what rewritten code calls."""

    __slots__ = ("units",)

    def __init__(self) -> None:
        self.units = 0

    def tick(self, units: int) -> None:
        """Count statements."""
        self.units += units

    def size(self, value: Any) -> int:
        """The units of a container or a text, without what is inside of it."""
        if isinstance(value, _TEXTS):
            return len(value) // _SHORT
        return len(value) if isinstance(value, Sized) and isinstance(value, _SIZED) else 0

    def weight(self, value: Any) -> int:
        """The units of a value with all that is inside of it."""
        total, todo = 0, [value]
        while todo:
            item = todo.pop()
            total += 1 + self.size(item)
            if isinstance(item, dict):
                todo += item.values()
            elif isinstance(item, (list, tuple)):
                todo += item
        return total

    def made(self, value: Any) -> Any:
        """Count a container or a text that was copied together."""
        self.units += self.size(value)
        return value

    def drawn(self, items: Any) -> Any:
        """Count what a generator expression takes, as it takes it."""
        for item in items:
            self.units += 1
            yield item

    def is_in(self, item: Any, holder: Any) -> bool:
        """Count a search."""
        if isinstance(holder, (list, tuple, deque)):
            for place, other in enumerate(holder):
                if self.same(item, other):
                    self.units += place
                    return True
            self.units += len(holder)
            return False
        if isinstance(holder, _TEXTS):
            self.units += len(holder) // _SHORT
        return item in holder

    def same(self, one: Any, other: Any) -> bool:
        """Count a comparison."""
        if one is other:
            return True
        if isinstance(one, (dict, list, tuple)) and type(one) is type(other) and len(one) == len(other):
            self.units += min(self.weight(one), self.weight(other))
        return bool(one == other)

    def plus(self, one: Any, other: Any) -> Any:
        """Count a sum of containers or texts."""
        return self.made(one + other)

    def more(self, one: Any, other: Any) -> Any:
        """Count `+=`."""
        if isinstance(one, (list, deque, bytearray)):
            self.units += self.size(other)
            one += other
            return one
        return self.made(one + other)

    def part(self, holder: Any, key: Any) -> Any:
        """Count a slice."""
        return self.made(holder[key])

    def room(self, holder: Any, key: Any) -> Any:
        """Count what moves when something is put into a list or taken out of it."""
        if isinstance(holder, list):
            start = key.indices(len(holder))[0] if isinstance(key, slice) else key % len(holder)
            self.units += len(holder) - start
        return holder

    def call(self, function: Any, /, *given: Any, **named: Any) -> Any:
        """Count a call, and what one of a C function goes through."""
        self.units += 1
        if not isinstance(function, (BuiltinFunctionType, MethodWrapperType, type)) or function is super:
            return function(*given, **named)
        holder = getattr(function, "__self__", None)
        name = function.__name__
        if isinstance(holder, ModuleType):
            holder = None
        if isinstance(function, type) and function.__module__.startswith("dragoman"):
            return function(*given, **named)
        if function is islice:
            self.units += given[1] if len(given) > 2 else 0
        elif name == "dumps":
            self.units += self.weight(given[0])
        elif isinstance(holder, list) and name in ("pop", "insert"):
            if given:
                place = given[0] if given[0] >= 0 else max(len(holder) + given[0], 0)
                self.units += max(len(holder) - place, 0)
        elif name in _FREE_METHODS or (isinstance(holder, (dict, set, deque)) and name == "pop"):
            pass
        elif name in _WITHIN and isinstance(holder, _TEXTS) and len(given) > 1:
            start, stop, _ = slice(*given[1:3]).indices(len(holder)) if len(given) > 2 else (given[1], len(holder), 1)
            self.units += max(stop - start, 0) // _SHORT
        elif name in _OF_GIVEN:
            self.units += sum(map(self.size, given))
        elif isinstance(holder, re.Pattern) and name == "match":
            found = function(*given, **named)
            start = given[1] if len(given) > 1 else 0
            self.units += max((found.end() if found else len(given[0])) - start, 0) // _SHORT
            return found
        else:
            self.units += self.size(holder) + sum(map(self.size, given))
        return function(*given, **named) if named else function(*given)  # some of C take no empty keywords


class _Rewriter(ast.NodeTransformer):
    """Source with calls of a `Meter`, named `_meter`, put in."""

    def _asks(self, what: str, *given: ast.expr) -> ast.Call:
        return ast.Call(ast.Attribute(ast.Name("_meter", ast.Load()), what, ast.Load()), list(given), [])

    def _counted(self, body: list[ast.stmt]) -> list[ast.stmt]:
        tick = ast.Expr(self._asks("tick", ast.Constant(len(body))))
        behind = int(isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant))
        return [*body[:behind], tick, *body[behind:]]

    def _block(self, node: Any) -> Any:
        self.generic_visit(node)
        node.body = self._counted(node.body)
        return node

    visit_For = visit_While = visit_AsyncFor = _block

    def visit_FunctionDef(self, node: Any) -> Any:
        """A function, without what only describes it."""
        node.body = self._counted([self.visit(statement) for statement in node.body])
        node.decorator_list = [self.visit(decorator) for decorator in node.decorator_list]
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """Annotations are not run."""
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        return self._asks("plus", node.left, node.right) if isinstance(node.op, ast.Add) else node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Add) or not isinstance(node.target, ast.Name):
            return node
        old = ast.Name(node.target.id, ast.Load())
        return ast.Assign([node.target], self._asks("more", old, node.value))

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if len(node.ops) != 1:
            return node
        op, one, other = node.ops[0], node.left, node.comparators[0]
        if isinstance(op, (ast.In, ast.NotIn)):
            found = self._asks("is_in", one, other)
            return found if isinstance(op, ast.In) else ast.UnaryOp(ast.Not(), found)
        if isinstance(op, (ast.Eq, ast.NotEq)) and not isinstance(other, ast.Constant):
            found = self._asks("same", one, other)
            return found if isinstance(op, ast.Eq) else ast.UnaryOp(ast.Not(), found)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.slice, ast.Slice):
            bounds = [bound or ast.Constant(None) for bound in (node.slice.lower, node.slice.upper, node.slice.step)]
            key = ast.Call(ast.Name("slice", ast.Load()), bounds, [])
            if isinstance(node.ctx, ast.Load):
                return self._asks("part", node.value, key)
            node.value = self._asks("room", node.value, key)
            node.slice = key
        elif isinstance(node.ctx, ast.Del):
            node.value = self._asks("room", node.value, node.slice)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in _FREE_NAMES:
            return node
        if isinstance(node.func, ast.Attribute) and node.func.attr in _FREE_METHODS:
            return node
        call = self._asks("call", node.func, *node.args)
        call.keywords = node.keywords
        return call

    def _display(self, node: Any) -> Any:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load) and any(isinstance(item, ast.Starred) for item in node.elts):
            return self._asks("made", node)
        return node

    visit_List = visit_Tuple = _display

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        self.generic_visit(node)
        return self._asks("made", node) if None in node.keys else node

    def _comprehension(self, node: Any) -> Any:
        self.generic_visit(node)
        for clause in node.generators:
            clause.iter = self._asks("drawn", clause.iter)
        return node

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        self.generic_visit(node)
        return self._asks("made", node)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        node.value = self.visit(node.value)
        return node

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        node.body = [self.visit(statement) for statement in node.body]
        return node


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, fullname: str, path: str, meter: Meter) -> None:
        super().__init__(fullname, path)
        self._meter = meter

    def get_code(self, fullname: str) -> Any:
        tree = _Rewriter().visit(ast.parse(self.get_data(self.path)))
        return compile(ast.fix_missing_locations(tree), self.path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["_meter"] = self._meter
        super().exec_module(module)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, package: str, meter: Meter) -> None:
        self._package, self._meter = package, meter

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._package and not fullname.startswith(self._package + "."):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None:
            return None
        places = spec.submodule_search_locations
        loader = _Loader(fullname, spec.origin, self._meter)
        return importlib.util.spec_from_file_location(
            fullname, spec.origin, loader=loader, submodule_search_locations=places
        )


class Metered:
    """The engine with a meter in it; everything of it must be used within `count`."""

    def __init__(self, package: str = "dragoman", without: str = "dragoman.aio") -> None:
        self._package = package
        self._meter = Meter()
        self._modules: dict[str, ModuleType] = {}
        with self._instead():
            finder = _Finder(package, self._meter)
            sys.meta_path.insert(0, finder)
            try:
                top = importlib.import_module(package)
                for module in pkgutil.walk_packages(top.__path__, package + ".", onerror=lambda name: None):
                    if not module.name.startswith(without):
                        importlib.import_module(module.name)
            finally:
                sys.meta_path.remove(finder)

    def _own(self) -> dict[str, ModuleType]:
        return {
            name: module
            for name, module in sys.modules.items()
            if name == self._package or name.startswith(self._package + ".")
        }

    @contextlib.contextmanager
    def _instead(self) -> Iterator[None]:
        """These modules in place of the plain ones."""
        plain = self._own()
        for name in plain:
            del sys.modules[name]
        sys.modules.update(self._modules)
        try:
            yield
        finally:
            self._modules = self._own()
            for name in self._modules:
                del sys.modules[name]
            sys.modules.update(plain)

    def __getitem__(self, name: str) -> Any:
        """The module of that name below the package."""
        return self._modules[f"{self._package}.{name}"]

    def count(self, function: Callable[..., Any], *given: Any, **named: Any) -> tuple[int, Any]:
        """The units of one call, and what it returned."""
        before = self._meter.units
        deepest = sys.getrecursionlimit()
        sys.setrecursionlimit(4 * deepest)
        try:
            with self._instead():
                result = function(*given, **named)
        finally:
            sys.setrecursionlimit(deepest)
        return self._meter.units - before, result
