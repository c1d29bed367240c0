"""How it is compiled: the one decorator, its options and their reasons.

A kernel is a function over floats, integers and arrays in the subset of Python that numba compiles, written
with scalar loops so that its Python form (`kernel.py_func`) runs unchanged and gives the same bits. This is
the only module that imports numba.

Options, and why:

- no ``fastmath``: sums keep their order, so results keep their bits, and compensated arithmetic survives;
- ``nogil``: several kernels may run in threads;
- ``error_model="numpy"``: a division by zero gives inf as in NumPy instead of a branch in every division;
- compiled code is kept on disk in a folder named by a hash of all sources that kernels can depend on.
  numba's own cache checks only the file of the function itself and would serve stale code when a function
  that it calls, in another file, has changed; numba adds its version and the CPU to the key by itself. Set
  ``GAINBIAS_CACHE=0`` to compile afresh in every process.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

import numba
from numba.extending import overload

PACKAGE = Path(__file__).parent
Function = TypeVar("Function", bound=Callable[..., Any])


@cache
def cache_folder() -> Path | None:
    """Return the folder of compiled kernels for exactly these sources, or None when caching is off.

    Examples
    --------
    >>> folder = cache_folder()
    >>> folder is None or folder.parent.name == "gainbias"
    True
    """
    if os.environ.get("GAINBIAS_CACHE", "1") == "0":
        return None
    digest = hashlib.sha256(str(PACKAGE).encode())
    for source in kernel_sources():
        digest.update(str(source.relative_to(PACKAGE)).encode())
        digest.update(source.read_bytes())
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = root / "gainbias" / digest.hexdigest()[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None


def kernel_sources() -> list[Path]:
    """Return the files that a kernel can depend on.

    They are those that import this one, those of algorithms, whose steps become parts of kernels, and all
    that these import.

    Examples
    --------
    >>> {"numeric.py", "double_chain.py"} <= {source.name for source in kernel_sources()}
    True
    """
    sources = {source: source.read_text(encoding="utf-8") for source in PACKAGE.rglob("*.py")}
    found: set[Path] = set()
    algorithms = PACKAGE / "algorithms"
    todo = [s for s, text in sources.items() if "gainbias.kernels import" in text or s.parent == algorithms]
    while todo:
        source = todo.pop()
        if source not in found:
            found.add(source)
            names = re.findall(r"^from gainbias\.([\w.]+) import", sources[source], flags=re.MULTILINE)
            paths = [PACKAGE / name.replace(".", "/") for name in names]
            todo += [
                file
                for path in paths
                for file in (path.with_suffix(".py"), path / "__init__.py")
                if file in sources
            ]
    return sorted(found)


def kernel(function: Function) -> Function:
    """Compile `function` on its first call; its Python form stays available as ``.py_func``.

    Examples
    --------
    >>> @kernel
    ... def double(x):
    ...     return 2.0 * x
    >>> double(4.0)
    8.0
    """
    return _compile(function)


def bare_kernel(function: Function) -> Function:
    """Compile `function`, which must allocate nothing, without counting references to its arrays.

    Whoever calls it holds the arrays, so there is nothing to count; and counting would cost up to a few
    hundred nanoseconds wherever records of arrays are passed or sliced, for a step that takes ten.

    Examples
    --------
    >>> @bare_kernel
    ... def double(x):
    ...     return 2.0 * x
    >>> double(4.0)
    8.0
    """
    return _compile(function, _nrt=False)


@cache
def inlined(function: Function) -> Function:
    """Let kernels call `function`, which must allocate nothing, by becoming a part of them.

    It stays a plain function. A kernel that gets it as a free variable is kept on disk under its name, which
    works neither for a compiled function nor for one passed as an argument.

    Examples
    --------
    >>> @inlined
    ... def double(x):
    ...     return 2.0 * x
    >>> @bare_kernel
    ... def quadruple(x):
    ...     return double(double(x))
    >>> quadruple(4.0)
    16.0
    """
    code = function.__code__, function.__globals__, function.__name__
    bare = FunctionType(*code, function.__defaults__, function.__closure__)  # without its annotations

    def choose(*_: Any) -> Callable[..., Any]:
        return bare

    _overload(function, choose, _parameters(function))
    return function


def _compile(function: Function, **options: Any) -> Function:
    folder = cache_folder()
    parts: list[Callable[..., Any]] = [function, *_free_functions(function)]
    cached = folder is not None and all(is_own(part) for part in parts)
    settings: Any = numba.config
    before = settings.CACHE_DIR
    try:
        # numba reads the folder while it decorates; it is put back at once, so that others see no change.
        settings.CACHE_DIR = str(folder) if cached else before
        compiled = numba.njit(nogil=True, error_model="numpy", cache=cached, **options)(function)
    finally:
        settings.CACHE_DIR = before
    if not settings.DISABLE_JIT:
        compiled.compile = _vectorising(compiled.compile)
    return cast(Function, compiled)


def is_own(function: Callable[..., Any]) -> bool:
    """Whether a function is part of this package, so that the name of the cache's folder covers it.

    Examples
    --------
    >>> is_own(is_own), is_own(lambda: 0)
    (True, False)
    """
    return Path(function.__code__.co_filename).is_relative_to(PACKAGE)


def _free_functions(function: Callable[..., Any]) -> list[Callable[..., Any]]:
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    return [content for content in cells if inspect.isfunction(content)]


def _vectorising(compile_for: Callable[..., Any]) -> Callable[..., Any]:
    """Switch on, while one kernel is compiled, the vectorisation of statements that stand side by side.

    Lanes that are written out, one variable each, become vector instructions only by this; it changes the
    order of no sum. numba has it off for everybody, so it is put back.
    """

    @functools.wraps(compile_for)
    def compile_vectorised(*arguments: Any) -> Any:
        settings: Any = numba.config
        before = settings.SLP_VECTORIZE
        settings.SLP_VECTORIZE = 1
        try:
            return compile_for(*arguments)
        finally:
            settings.SLP_VECTORIZE = before

    return compile_vectorised


def _overload(name: Any, choose: Callable[..., Any], parameters: list[inspect.Parameter]) -> None:
    # numba wants the same signature, without annotations, everywhere.
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    choose.__signature__ = inspect.Signature(bare)  # type: ignore[attr-defined]
    options: Any = {"_nrt": False, "error_model": "numpy", "forceinline": True}
    overload(name, jit_options=options)(choose)


class ByType:
    """A function with one implementation for each type of its first argument, in Python and inside kernels.

    Implementations become part of the kernels that call them, so they must allocate nothing. They take the
    same arguments, by the same names, as the function that declares them.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> class Circle(NamedTuple):
    ...     radius: float
    >>> @ByType
    ... def width(shape):
    ...     "How wide a shape is."
    >>> @width.of(Circle)
    ... def _(shape):
    ...     return 2.0 * shape.radius
    >>> width(Circle(3.0))
    6.0
    """

    def __init__(self, declaration: Callable[..., Any]) -> None:
        functools.update_wrapper(self, declaration)
        self._implementations: dict[type, Callable[..., Any]] = {}

        def choose(*arguments: Any) -> Callable[..., Any]:
            return self._implementations[arguments[0].instance_class]

        _overload(self, choose, _parameters(declaration))

    def of(self, kind: type) -> Callable[[Function], Function]:
        """Register the implementation for `kind`, a NamedTuple."""

        def register(function: Function) -> Function:
            function.__annotations__ = {}
            self._implementations[kind] = function
            return function

        return register

    def __call__(self, *arguments: Any) -> Any:
        """Call the implementation for the type of the first argument."""
        return self._implementations[type(arguments[0])](*arguments)


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())
