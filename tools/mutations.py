"""What can be changed in a source to make it wrong: the places, the mutants of each, and how they are drawn.

A *place* is a spot in the code that can be changed; a *mutant* is one such change. Mutants change arithmetic,
comparisons, ``and``, ``or`` and ``not``, numbers, minima and maxima, absolute values, the sign of what is
returned, indices, ``break`` and ``continue``; they drop statements that add to something or only call
something. They do not touch docstrings, annotations,
messages of errors and warnings, or the display of objects.
`tools.mutants` tries the mutants.
"""

from __future__ import annotations

import ast
import bisect
import difflib
import hashlib
import io
import itertools
import math
import tokenize
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

ARITHMETIC = {"+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"], "**": ["*"]}
ARITHMETIC |= {f"{sign}=": [f"{new}="] for sign, (new,) in ARITHMETIC.items()}
COMPARISONS = {"<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"]}
COMPARISONS |= {"==": ["!="], "!=": ["=="]}
BOOLEAN = {"and": ["or"], "or": ["and"]}
SWAPS = {"min": "max", "minimum": "maximum", "argmin": "argmax"}
SWAPS |= {after: before for before, after in SWAPS.items()}
MAGNITUDES = ("abs", "fabs", "absolute")
FLOATS = ("float", "FloatArray", "Floats", "NDArray[np.float64]", "Any")
TEXTS = ("__repr__", "__str__", "_repr_html_")
COMPILED = ("kernel", "bare_kernel", "inlined", "of")
TOLERANCE = 1e-5  # a number up to this size is a tolerance, and doubling it would hardly be seen


@dataclass(frozen=True)
class Mutant:
    """One change of one file.

    Its `id` is made of the path, the operator, the text of the line and the occurrence among equal ones. So
    it stays the same when the file changes elsewhere. Its `key` is short, for the command line.
    """

    path: str
    operator: str
    text: str
    occurrence: int
    line: int
    start: int
    end: int
    new: str
    compiled: bool

    @property
    def id(self) -> str:
        """The name that stays the same."""
        return f"{self.path} | {self.operator} | {self.text} | {self.occurrence}"

    @property
    def key(self) -> str:
        """Eight letters computed from the id."""
        return digest(self.id)[:8]

    def apply(self, source: str) -> str:
        """Return the changed source, with the same number of lines (numba keeps code by line numbers)."""
        lost = source[self.start : self.end].count("\n") - self.new.count("\n")
        return source[: self.start] + self.new + "\n" * lost + source[self.end :]

    def diff(self, source: str) -> str:
        """Return the change as a diff."""
        before, after = source.splitlines(), self.apply(source).splitlines()
        return "\n".join(difflib.unified_diff(before, after, self.path, self.key, n=2, lineterm=""))


Place = tuple[Mutant, ...]


def places_of(source: str, path: str) -> list[Place]:
    """Return the places of a source in which it can be changed, each with its mutants.

    Examples
    --------
    >>> [[mutant.operator for mutant in place] for place in places_of("a = b + c * 2.0", "a.py")]
    [['+ to -'], ['* to /'], ['2.0 to 4.0', '2.0 to 1.0', '2.0 to -2.0']]
    """
    finder = _Finder(source)
    finder.visit(ast.parse(source))
    lines, seen = source.splitlines(), Counter[tuple[str, str]]()
    places = []
    for place in sorted(finder.places):
        mutants = []
        for start, end, new, operator, compiled in place:
            line = source.count("\n", 0, start)
            text = lines[line].strip()
            seen[operator, text] += 1
            mutants.append(
                Mutant(path, operator, text, seen[operator, text], line + 1, start, end, new, compiled)
            )
        places.append(tuple(mutants))
    return places


class _Finder(ast.NodeVisitor):
    """Collects changes ``(start, end, new text, operator, compiled)``, by place."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.places: list[list[tuple[int, int, str, str, bool]]] = []
        lines = source.splitlines(keepends=True)
        self._starts = [0, *itertools.accumulate(map(len, lines))]
        self._lines = lines
        self._tokens = [
            (self._starts[token.start[0] - 1] + token.start[1], token.string)
            for token in tokenize.generate_tokens(io.StringIO(source).readline)
            if token.type in (tokenize.OP, tokenize.NAME)
        ]
        self._integers = _integer_names(ast.parse(source))
        self._returns_floats = self._compiled = False

    def _span(self, node: Any) -> tuple[int, int]:
        ends = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
        first, last = (
            self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())
            for line, column in ends
        )
        return first, last

    def _text(self, node: ast.AST) -> str:
        return self.source[slice(*self._span(node))]

    def _place(self, span: tuple[int, int], *changes: tuple[str, str]) -> None:
        self.places.append([(*span, new, operator, self._compiled) for new, operator in changes])

    def _swap_between(self, left: Any, right: Any, swaps: dict[str, list[str]]) -> None:
        """Add a place for the operator that stands between two expressions."""
        low, high = self._span(left)[1], self._span(right)[0]
        first = bisect.bisect_left(self._tokens, (low, ""))
        for at, token in itertools.takewhile(lambda found: found[0] < high, self._tokens[first : first + 50]):
            if token in swaps:
                self._place((at, at + len(token)), *((new, f"{token} to {new}") for new in swaps[token]))

    # What is left out: words, types, and checks that only the type checker or a developer reads.

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None: ...
    def visit_Raise(self, node: ast.Raise) -> None: ...
    def visit_Assert(self, node: ast.Assert) -> None: ...

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_all(node.body)

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" in self._text(node.test):
            self._visit_all(node.orelse)
        else:
            self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg != "stacklevel":
            self.visit(node.value)

    def _visit_all(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name in TEXTS:
            return
        before = self._returns_floats, self._compiled
        returned = self._text(node.returns) if node.returns else ""
        self._returns_floats = returned in FLOATS
        self._compiled = self._compiled or _is_compiled(node)
        self._visit_all([*node.args.defaults, *node.args.kw_defaults, *node.body])
        self._returns_floats, self._compiled = before

    # What is changed.

    def visit_BinOp(self, node: ast.BinOp) -> None:
        sides = node.left, node.right
        if not any(isinstance(x, ast.JoinedStr) or isinstance(getattr(x, "value", 0), str) for x in sides):
            self._swap_between(node.left, node.right, ARITHMETIC)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._swap_between(node.target, node.value, ARITHMETIC)
        self._place(self._span(node), ("pass", "dropped"))
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        for left, right in itertools.pairwise(sides):
            self._swap_between(left, right, COMPARISONS)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for left, right in itertools.pairwise(node.values):
            self._swap_between(left, right, BOOLEAN)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._place(self._span(node), (f"({self._text(node.operand)})", "not dropped"))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value, text = node.value, self._text(node)
        if type(value) is int:
            new = [str(value + 1)] + [f"-{value}"] * (value != 0)
        elif type(value) is not float:
            return
        elif value == 0.0:
            new = ["1.0"]
        elif value <= TOLERANCE:
            new = [repr(1e4 * value)]
        else:
            new = [repr(2 * value), repr(value / 2), repr(-value)]
        self._place(self._span(node), *((number, f"{text} to {number}") for number in new))

    def visit_Call(self, node: ast.Call) -> None:
        start, end = self._span(node.func)
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if name in SWAPS:
            self._place((end - len(name), end), (SWAPS[name], f"{name} to {SWAPS[name]}"))
        elif name in MAGNITUDES and len(node.args) == 1 and not node.keywords:
            self._place((start, end), ("", f"{name} dropped"))
        if name != "warn":
            self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if self._returns_floats and node.value and not isinstance(node.value, ast.Constant):
            self._place(self._span(node.value), (f"-({self._text(node.value)})", "sign of what is returned"))
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self._place(self._span(node), ("pass", "dropped"))
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_Break(self, node: ast.Break) -> None:
        self._place(self._span(node), ("continue", "break to continue"))

    def visit_Continue(self, node: ast.Continue) -> None:
        self._place(self._span(node), ("break", "continue to break"))

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if self._text(node.value).rpartition(".")[2][:1].isupper():
            return  # a type
        self.visit(node.value)
        for part in node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]:
            if isinstance(part, ast.Slice):
                self._shift(part.lower, "+")
                self._shift(part.upper, "-")
            elif isinstance(part, ast.UnaryOp):
                self._shift(part, "-")
            elif type(getattr(part, "value", None)) is int or getattr(part, "id", None) in self._integers:
                self._shift(part, "+")
            elif not isinstance(part, ast.Constant):
                self.visit(part)

    def _shift(self, index: ast.expr | None, sign: str) -> None:
        if index is not None:
            text = self._text(index)
            text = text if isinstance(index, ast.Name | ast.Constant | ast.UnaryOp) else f"({text})"
            self._place(self._span(index), (f"{text} {sign} 1", f"index {sign} 1"))


def _integer_names(tree: ast.AST) -> set[str]:
    """Return the names that stand for an index: counted by a loop, or declared as an integer."""
    names = set()
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.For)
            and isinstance(node.iter, ast.Call)
            and isinstance(node.target, ast.Name)
        ):
            names |= {node.target.id} if getattr(node.iter.func, "id", "") == "range" else set()
        if isinstance(node, ast.arg) and getattr(node.annotation, "id", "") == "int":
            names.add(node.arg)
    return names


def _is_compiled(node: ast.FunctionDef) -> bool:
    """Whether a function becomes machine code: a kernel, a part of one, a step, or the loop over steps."""
    marks = {
        getattr(mark, "id", getattr(getattr(mark, "func", None), "attr", "")) for mark in node.decorator_list
    }
    return bool(marks & set(COMPILED)) or node.name in ("step", "advance")


def draw(rooms: dict[str, list[Place]], sample: int, seed: int) -> list[Mutant]:
    """Return this many mutants, from each room in proportion to its places, at most one of each place.

    Places are ranked by a digest of the seed and their id. So a smaller sample is a part of a larger one, and
    an edit in one place leaves the draw of the others as it is.

    Examples
    --------
    >>> rooms = {"a": places_of("x = y + z * u", "a.py"), "b": places_of("x = y < z", "b.py")}
    >>> [mutant.path for mutant in draw(rooms, 3, seed=0)]
    ['a.py', 'a.py', 'b.py']
    """
    total = sum(map(len, rooms.values()))
    shares = {room: min(sample / max(total, 1), 1.0) * len(places) for room, places in rooms.items()}
    counts = {room: math.floor(share) for room, share in shares.items()}
    missing = min(sample, total) - sum(counts.values())
    for room in sorted(rooms, key=lambda room: counts[room] - shares[room])[:missing]:
        counts[room] += 1

    def rank(mutant: Mutant) -> str:
        return digest(f"{seed} {mutant.id}")

    return [
        mutant
        for room, places in rooms.items()
        for mutant in sorted((min(place, key=rank) for place in places), key=rank)[: counts[room]]
    ]


def digest(text: str) -> str:
    """Return a short name for a text."""
    return hashlib.sha256(text.encode()).hexdigest()
