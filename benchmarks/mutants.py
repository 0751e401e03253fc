"""Mutants of a module: one small change each, made to a statement and put into the module as it is loaded."""

import ast
import copy
import inspect
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

# What a mutant puts in an operator's place.
SWAPS: dict[type, type] = {ast.Add: ast.Sub, ast.Mult: ast.Div, ast.BitAnd: ast.BitOr, ast.And: ast.Or}
SWAPS |= {ast.Eq: ast.NotEq, ast.Is: ast.IsNot, ast.In: ast.NotIn}
SWAPS |= {new: old for old, new in SWAPS.items()}
SWAPS |= {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
SWAPS |= {ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.Pow: ast.Mult}
CALLS = {"max": "min", "argmax": "argmin", "any": "all", "maximum": "minimum", "sum": "mean"}
CALLS |= {new: old for old, new in CALLS.items()}

DEFINITIONS = (ast.FunctionDef, ast.Lambda)
Change = Callable[[Any], None]


class Mutant(NamedTuple):
    """One changed statement at the top level of a module."""

    line: int
    what: str
    code: str
    """The line that was changed, as it was."""
    statement: ast.stmt
    at_import: bool
    """Whether the line runs when the module is imported, and not in a test."""
    followers: list[ast.stmt]
    """The functions below, which may have the statement's value as a default."""

    def put_into(self, module: ModuleType) -> None:
        """Change the loaded module. Functions change where they are, so that everybody who has imported them
        has the mutant; any other value is replaced wherever it was imported to."""
        names = dict(vars(module))
        whole = ast.fix_missing_locations(ast.Module([self.statement, *self.followers], []))
        exec(compile(whole, module.__file__ or "", "exec"), names)
        for name, new in names.items():
            old = vars(module).get(name)
            if new is old:
                continue
            if isinstance(new, FunctionType) and isinstance(old, FunctionType):
                _swap(old, new)
            elif inspect.isclass(new) and inspect.isclass(old) and not self.at_import:
                for attribute, value in vars(new).items():
                    if isinstance(value, FunctionType):
                        _swap(vars(old)[attribute], value)
            else:
                for other in [m for m in sys.modules.values() if m is not None]:
                    if name in vars(other) and vars(other)[name] is old:
                        setattr(other, name, new)


def _swap(old: FunctionType, new: FunctionType) -> None:
    old.__code__, old.__defaults__, old.__kwdefaults__ = new.__code__, new.__defaults__, new.__kwdefaults__


def mutants(source: str) -> Iterator[Mutant]:
    """Every mutant of a module, in the order of its lines."""
    lines = source.splitlines()
    body, seen = ast.parse(source).body, Counter()
    for at, statement in enumerate(body):
        if _is_type(statement):
            continue
        skipped = {id(n) for part in _annotations(statement) for n in ast.walk(part)}
        inside = {id(n) for part in ast.walk(statement) if isinstance(part, DEFINITIONS) for n in _body(part)}
        for number, node in enumerate(ast.walk(statement)):
            if id(node) in skipped:
                continue
            for what, change in _changes(node):
                other = copy.deepcopy(statement)
                change(next(n for i, n in enumerate(ast.walk(other)) if i == number))
                line = getattr(node, "lineno", statement.lineno)
                seen[line, what] += 1
                name = f"{what}, {seen[line, what]}" if seen[line, what] > 1 else what
                functions = [s for s in body[at + 1 :] if isinstance(s, ast.FunctionDef)]
                below = functions if isinstance(statement, ast.Assign) else []
                yield Mutant(line, name, lines[line - 1].strip(), other, id(node) not in inside, below)


def _body(function: Any) -> Iterator[ast.AST]:
    parts = function.body if isinstance(function.body, list) else [function.body]
    return (n for part in parts for n in ast.walk(part))


def _is_type(statement: ast.stmt) -> bool:
    """Whether it only names a type, as in `Target = Callable[...]`."""
    value = getattr(statement, "value", None)
    return isinstance(value, ast.Subscript) and isinstance(value.value, ast.Name)


def _annotations(statement: ast.stmt) -> Iterator[ast.AST]:
    for node in ast.walk(statement):
        for name in ("annotation", "returns"):
            if isinstance(part := getattr(node, name, None), ast.AST):
                yield part


def _changes(node: ast.AST) -> Iterator[tuple[str, Change]]:
    """What can be changed in one node: a description, and the change to a copy of it."""
    if isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(node.op) in SWAPS:
        new = SWAPS[type(node.op)]
        yield f"{type(node.op).__name__} to {new.__name__}", lambda n: setattr(n, "op", new())
    elif isinstance(node, ast.Compare):
        for i, op in enumerate(node.ops):
            new = SWAPS[type(op)]
            yield (
                f"{type(op).__name__} to {new.__name__}",
                lambda n, i=i, new=new: n.ops.__setitem__(i, new()),
            )
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Invert):
        yield f"{type(node.op).__name__} left out", lambda n: setattr(n, "op", ast.UAdd())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "Not left out", lambda n: setattr(n, "operand", ast.UnaryOp(ast.Not(), n.operand))
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield f"{node.value} to {not node.value}", lambda n: setattr(n, "value", not n.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield f"{node.value} to {node.value + 1}", lambda n: setattr(n, "value", n.value + 1)
    elif isinstance(node, ast.Attribute) and node.attr in CALLS:
        yield f"{node.attr} to {CALLS[node.attr]}", lambda n: setattr(n, "attr", CALLS[n.attr])
    elif isinstance(node, ast.IfExp | ast.If):
        yield "the other branch", lambda n: setattr(n, "test", ast.UnaryOp(ast.Not(), n.test))
    elif isinstance(node, ast.Return) and not isinstance(node.value, ast.Constant | None):
        yield "returns None", lambda n: setattr(n, "value", ast.Constant(None))
