"""How it is compiled: the one decorator, its options and their reasons.

A kernel is a function over floats, integers and arrays in the subset of Python that numba compiles, written
with scalar loops so that its Python form (`kernel.py_func`) runs unchanged and gives the same bits. This is
the only module that imports numba.

Options, and why:

- no ``fastmath``: sums keep their order, so results keep their bits, and compensated arithmetic survives;
- ``nogil``: several kernels may run in threads;
- ``error_model="numpy"``: a division by zero gives inf as in NumPy instead of a branch in every division;
- ``no_cfunc_wrapper``: nobody calls kernels from C, and to compile a second way into each takes a tenth of
  the time;
- compiled code is kept on disk in a folder named by a hash of all sources that kernels can depend on.
  numba's own cache checks only the file of the function itself and would serve stale code when a function
  that it calls, in another file, has changed; numba adds its version and the CPU to the key by itself. Set
  ``GAINBIAS_CACHE=0`` to compile afresh in every process.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
import inspect
import threading
from collections.abc import Callable, Iterator
from functools import cache
from types import FunctionType
from typing import Any, TypeVar, cast

import numba
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.extending import overload

from gainbias.sources import cache_folder, is_as_hashed, is_own

Function = TypeVar("Function", bound=Callable[..., Any])
_Library: Any = JITCodeLibrary
_Compiler: Any = Compiler
OPTIONS: dict[str, Any] = {"error_model": "numpy", "no_cfunc_wrapper": True}
_LOCK = threading.RLock()  # numba's settings are shared by all threads while one of them compiles


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

    with _LOCK:
        _overload(function, choose, _parameters(function))
    return function


def code_number(function: Callable[..., Any]) -> int:
    """Return a number that names the code of a function and of all functions that it can reach.

    A kernel that has it as a free variable is kept on disk under it. So what is served is what the function
    does now, whatever has become of its file since it was imported.

    Examples
    --------
    >>> code_number(lambda x: 2.0 * x) == code_number(lambda x: 3.0 * x)
    False
    """
    digest, seen = hashlib.sha256(), set()
    todo: list[Any] = [function]
    while todo:
        reached = todo.pop()
        if reached in seen:
            continue
        seen.add(reached)
        code = reached.__code__
        digest.update(code.co_code + repr((code.co_consts, code.co_names)).encode())
        for name in code.co_names:
            known = reached.__globals__.get(name)
            known = getattr(known, "py_func", known)  # a kernel that it calls
            todo += (
                known.implementations if isinstance(known, ByType) else [known] * inspect.isfunction(known)
            )
    return int.from_bytes(digest.digest()[:7], "big")


def _compile(function: Function, **options: Any) -> Function:
    with _LOCK:
        folder = cache_folder()
        parts: list[Callable[..., Any]] = [function, *_free_functions(function)]
        cached = folder is not None and all(is_own(part) for part in parts) and is_as_hashed(function)
        settings: Any = numba.config
        before = settings.CACHE_DIR
        try:
            # numba reads the folder while it decorates; it is put back at once, so that others see no change.
            settings.CACHE_DIR = str(folder) if cached else before
            compiled = numba.njit(cache=cached, nogil=True, **OPTIONS, **options)(function)
        finally:
            settings.CACHE_DIR = before
        if not settings.DISABLE_JIT:
            compiled.compile = _undisturbed(compiled.compile)
    return cast(Function, compiled)


def _free_functions(function: Callable[..., Any]) -> list[Callable[..., Any]]:
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    return [content for content in cells if inspect.isfunction(content)]


def _undisturbed(compile_for: Callable[..., Any]) -> Callable[..., Any]:
    """Compile one kernel at a time, with our settings."""

    @functools.wraps(compile_for)
    def compile_undisturbed(*arguments: Any) -> Any:
        with _LOCK, _vectorising(), _without_collecting():
            return compile_for(*arguments)

    return compile_undisturbed


@contextlib.contextmanager
def _vectorising() -> Iterator[None]:
    """Switch on the vectorisation of statements that stand side by side.

    Lanes that are written out, one variable each, become vector instructions only by this; it changes the
    order of no sum. numba has it off for everybody, so it is put back.
    """
    settings: Any = numba.config
    before = settings.SLP_VECTORIZE
    settings.SLP_VECTORIZE = 1
    try:
        yield
    finally:
        settings.SLP_VECTORIZE = before


@contextlib.contextmanager
def _without_collecting() -> Iterator[None]:
    """Collect no garbage: to look through all that numba has in memory would take a tenth of the time."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


class _PartLibrary(_Library):  # type: ignore[misc]
    """Code that is only ever a part of kernels.

    numba would optimise it and make machine code of it, and then do both again for each kernel that it is
    put into. Here it is simplified only, function by function, and waits for the kernel, which saves up to a
    quarter of the time. (Without simplifying, four paths of a chain with 100 states took twice as long to
    draw.) These methods are numba's own affair: should a later version not call them, parts take longer to
    compile and work as before.
    """

    _final_module: Any

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        whole = self._final_module.clone()
        for function in self._final_module.functions:
            if not function.is_declaration:
                function.linkage = "available_externally"  # so that no machine code is made
        super()._finalize_final_module()
        self._final_module = whole


class _PartCompiler(_Compiler):  # type: ignore[misc]
    """numba's compiler, with another place for what it makes."""

    def __init__(self, typing: Any, target: Any, library: Any, *rest: Any) -> None:
        if library is None:
            library = _PartLibrary(target.codegen(), "part")
            library.enable_object_caching()
        super().__init__(typing, target, library, *rest)


def _overload(name: Any, choose: Callable[..., Any], parameters: list[inspect.Parameter]) -> None:
    # numba wants the same signature, without annotations, everywhere.
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    choose.__signature__ = inspect.Signature(bare)  # type: ignore[attr-defined]
    options: Any = {**OPTIONS, "_nrt": False, "forceinline": True, "pipeline_class": _PartCompiler}
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

    @property
    def implementations(self) -> list[Callable[..., Any]]:
        """The functions that were registered."""
        return list(self._implementations.values())

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
