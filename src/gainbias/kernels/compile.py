"""The decorators for kernels and for their parts, and the options with which all are compiled.

`kernel` and `bare_kernel` compile a function that Python calls. `inlined` and `ByType` are for parts:
functions that become part of the kernels that call them. A kernel that another kernel calls becomes a part
of it, too, in a second form that Python cannot call. `light_work` is for callers with so little to do
that compiling would take longer than the work; `plain_form` gives a kernel a quicker Python form for it.

Options, and why:

- no ``fastmath``: sums keep their order, so results keep their bits, and compensated arithmetic survives;
- ``nogil``: several kernels may run in threads;
- ``error_model="numpy"``: a division by zero gives inf as in NumPy instead of a branch in every division;
- ``no_cfunc_wrapper``: nothing calls kernels from C, and a second entry point would take a tenth of the
  compile time;
- compiled code of this package is kept on disk, in a folder named by what the kernel does (see `cache`).
"""

from __future__ import annotations

import contextlib
import functools
import gc
import inspect
import logging
import pickle
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core import types
from numba.extending import intrinsic, overload, typeof_impl

from gainbias.kernels.cache import cache_folder, is_own, kernel_digest
from gainbias.kernels.numba_internals import part_compiler

Function = TypeVar("Function", bound=Callable[..., Any])
OPTIONS: dict[str, Any] = {"error_model": "numpy", "no_cfunc_wrapper": True}
_LOCK = threading.RLock()  # numba's settings are shared by all threads while one of them compiles
_PART_COMPILER = part_compiler()
_LOG = logging.getLogger("gainbias.kernels")
LOW, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)

COMPILING = "compiling, which takes some seconds, %s"
"""The text that is logged, as information, before a kernel that is not on disk is compiled."""

UNREADABLE = (ImportError, AttributeError, EOFError, pickle.UnpicklingError)
"""Errors of numba for stored code that is damaged or names a type that has moved: it is compiled again."""

PYTHON_SECONDS = 0.3
"""A kernel whose Python form has taken this long in all is compiled after all, which takes about as long."""

_IS_LIGHT: ContextVar[bool] = ContextVar("is_light", default=False)


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
    """Compile `function`, which must allocate nothing, on its first call, without counting references.

    The Python form stays available as ``.py_func``.

    The caller holds the arrays, so their references need no counting. Counting would cost up to a few hundred
    nanoseconds wherever records of arrays are passed or sliced, in a step that takes ten.

    Examples
    --------
    >>> @bare_kernel
    ... def double(x):
    ...     return 2.0 * x
    >>> double(4.0)
    8.0
    """
    return _compile(function, _nrt=False)


@contextlib.contextmanager
def light_work(is_light: bool = True) -> Iterator[None]:
    """Run kernels that are neither compiled nor on disk in their Python form inside the block.

    On a fresh machine compiling takes many seconds, and small work takes none. Both forms give the same bits.
    A kernel that has run like this for a while is compiled, because much small work adds up. No single
    call should take longer than a second, because it cannot be interrupted.

    Parameters
    ----------
    is_light : bool
        Whether the work is small; the block changes nothing otherwise.

    Examples
    --------
    >>> @kernel
    ... def double(x):
    ...     return 2.0 * x
    >>> with light_work():
    ...     double(4.0)
    8.0
    """
    before = _IS_LIGHT.set(is_light)
    try:
        # Compiled code does not warn of overflow and the like either.
        with np.errstate(all="ignore") if is_light else contextlib.nullcontext():
            yield
    finally:
        _IS_LIGHT.reset(before)


def plain_form(of: Callable[..., Any]) -> Callable[[Function], Function]:
    """Register a function as the Python form of a kernel, for light work.

    It must do with arrays what the loops of the kernel do, term by term and in the same order, so that both
    have the same bits.

    Examples
    --------
    >>> @kernel
    ... def double_all(x):
    ...     for i in range(len(x)):
    ...         x[i] *= 2.0
    >>> @plain_form(double_all)
    ... def double_at_once(x):
    ...     x *= 2.0
    >>> numbers = np.ones(2)
    >>> with light_work():
    ...     double_all(numbers)
    >>> numbers.tolist()
    [2.0, 2.0]
    """

    def register(function: Function) -> Function:
        of.plain_form = function  # type: ignore[attr-defined]
        return function

    return register


@cache
def inlined(function: Function) -> Function:
    """Make `function`, which must allocate nothing, a part of every kernel that calls it.

    It stays a plain function. A kernel that has it as a free variable can still be kept on disk, which works
    neither with a compiled function nor with one passed as an argument.

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


def high_product(a: Any, b: Any) -> Any:
    """Return the upper 64 bits of the product of two numbers of 64 bits, of type uint64.

    The processor has an instruction for it, which kernels use; Python and GPUs multiply halves.

    Examples
    --------
    >>> int(high_product(np.uint64(2**40), np.uint64(2**30)))
    64
    """
    a0, a1, b0, b1 = a & LOW, a >> HALF, b & LOW, b >> HALF
    low, first, second = a0 * b0, a1 * b0, a0 * b1
    middle = (low >> HALF) + (first & LOW) + (second & LOW)
    return a1 * b1 + (first >> HALF) + (second >> HALF) + (middle >> HALF)


@intrinsic
def _high_product(context: Any, a: Any, b: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        half = arguments[0].type
        whole = type(half)(2 * half.width)
        product = builder.mul(*(builder.zext(argument, whole) for argument in arguments))
        return builder.trunc(builder.lshr(product, whole(half.width)), half)

    return types.uint64(types.uint64, types.uint64), generate


def _high_product_in_kernels(a: Any, b: Any) -> Any:
    return _high_product(a, b)  # type: ignore[call-arg]


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
    ...     "Return the width of a shape."
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
    def implementations(self) -> dict[type, Callable[..., Any]]:
        """The functions that were registered, by the type that each is for."""
        return dict(self._implementations)

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


def _compile(function: Function, **options: Any) -> Function:
    options = {"nogil": True, **OPTIONS, **options}
    compiled: Any = numba.njit(**options)(function)
    settings: Any = numba.config
    if not settings.DISABLE_JIT:
        compiled.compile = _undisturbed(compiled)
        if _PART_COMPILER is not None:
            options |= {"no_cpython_wrapper": True, "pipeline_class": _PART_COMPILER}
            compiled.part_form = functools.cache(lambda: _part_form(function, options))
    return cast(Function, compiled)


def _part_form(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Return a function as a part of kernels, with one form for all numbers, also for those in the source."""
    part: Any = numba.njit(**options)(function)
    compile_for = part.compile
    part.compile = lambda arguments: compile_for(tuple(map(types.unliteral, arguments)))
    return part


def _inside_kernels(called: Any, _: object) -> Any:
    """Return the type of a compiled function that a kernel calls: if there is a part form, this is called."""
    return types.Dispatcher(called.part_form() if hasattr(called, "part_form") else called)


typeof_impl.register(type(numba.jit(nopython=True)(lambda: None)))(_inside_kernels)


def _undisturbed(compiled: Any) -> Callable[..., Any]:
    """Return a `compile` that works on one kernel at a time, with our settings and its folder on disk."""
    compile_for = compiled.compile
    find_place = functools.cache(lambda: _keep_on_disk(compiled))
    is_stored = functools.cache(lambda: (place := find_place()) is not None and any(place.rglob("*.nbi")))
    seconds = 0.0

    def in_python(*arguments: Any) -> Any:
        nonlocal seconds
        start = time.thread_time()
        try:
            return _python_form(compiled)(*arguments)
        finally:
            seconds += time.thread_time() - start

    @functools.wraps(compile_for)
    def compile_undisturbed(*arguments: Any) -> Any:
        with _LOCK, _vectorising(), _without_collecting():
            if _IS_LIGHT.get() and seconds < PYTHON_SECONDS and not is_stored():
                return in_python  # numba calls whatever it is given
            place = find_place()
            if not is_stored():
                _LOG.info(COMPILING, "in each process" if place is None else "once on this machine")
            before = _IS_LIGHT.set(False)  # a kernel calls other kernels in their compiled form only
            try:
                return compile_for(*arguments)
            except UNREADABLE:
                if place is None:
                    raise
                shutil.rmtree(place, ignore_errors=True)
                return compile_for(*arguments)
            finally:
                _IS_LIGHT.reset(before)

    return compile_undisturbed


@cache
def _python_form(compiled: Any) -> Callable[..., Any]:
    """Return the Python form of a kernel, which calls those of other kernels."""
    if hasattr(compiled, "plain_form"):
        return cast(Callable[..., Any], compiled.plain_form)
    function = compiled.py_func
    used = {name: function.__globals__.get(name) for name in function.__code__.co_names}
    kernels = {name: _python_form(value) for name, value in used.items() if hasattr(value, "py_func")}
    around = {**function.__globals__, **kernels}
    return FunctionType(
        function.__code__, around, function.__name__, function.__defaults__, function.__closure__
    )


def _keep_on_disk(compiled: Any) -> Path | None:
    """Let numba load and save a kernel in the folder that is named by what it does; return the folder.

    This waits until the kernel is first compiled, because only then are all functions defined that it calls.
    Nothing is kept, and None returned, if the kernel has no digest.
    """
    function, folder = compiled.py_func, cache_folder()
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    parts = [function, *filter(inspect.isfunction, cells)]
    if folder is None or not all(map(is_own, parts)):
        return None
    digest = kernel_digest(function, (sorted(compiled.targetoptions.items()), _PART_COMPILER is None))
    if digest is None:
        return None
    settings: Any = numba.config
    before = settings.CACHE_DIR
    try:
        # numba reads this setting only here; it is put back at once, so that others see no change.
        settings.CACHE_DIR = str(folder / digest)
        compiled.enable_caching()
    finally:
        settings.CACHE_DIR = before
    return folder / digest


@contextlib.contextmanager
def _vectorising() -> Iterator[None]:
    """Switch on the vectorisation of neighbouring statements for a while.

    Only this turns lanes that are written out, one variable each, into vector instructions. It changes the
    order of no sum. numba has it off for everybody, so it is switched off again.
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
    """Switch off garbage collection for a while; it would take a tenth of the time of compiling."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def _overload(name: Any, choose: Callable[..., Any], parameters: list[inspect.Parameter]) -> None:
    """Tell numba to put the function that `choose` returns in place of calls to `name`."""
    # numba wants the same signature, without annotations, everywhere.
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    choose.__signature__ = inspect.Signature(bare)  # type: ignore[attr-defined]
    options: Any = {**OPTIONS, "_nrt": False, "forceinline": True}
    if _PART_COMPILER is not None:
        options["pipeline_class"] = _PART_COMPILER
    overload(name, jit_options=options)(choose)


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())


_high_product_in_kernels.__annotations__ = {}
_overload(high_product, lambda *_: _high_product_in_kernels, _parameters(high_product))
