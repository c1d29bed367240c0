"""Steps on a GPU: device functions made from the same functions that kernels consist of.

`DeviceForms` takes a step and returns it as a function that kernels on a GPU can call: its byte code, with
the names of all functions of this package that it calls bound to device functions made in the same way. A
function that has one implementation for each type is bound to the one for the types that are in use.

Fused multiply-add is off: a product is rounded before it is added to, as on the processor, so that results
have the same bits. NVVM then writes ``mul.rn`` and ``add.rn``, which no later stage may fuse. Optimising at
link time is also off, because the linker would compile once more by its own rules. (``cuda.jit`` must be
given the function and that option in one call: as a decorator with options it forgets this one.)

`around_lane` gives each thread a copy of its part of a state, in arrays whose lengths are known when it is
compiled. Loops over them unroll, and short vectors stay in registers.

On numba-cuda's simulator arrays of the device are those of NumPy.
"""

# numba-cuda has few types, and names that it does not list as its own.
# mypy: disable-error-code="no-untyped-call, attr-defined, no-any-return"

from __future__ import annotations

import contextlib
import dis
import inspect
import math
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from gainbias.kernels.compile import ByType


def is_simulated() -> bool:
    """Whether kernels for a GPU run in Python, on numba-cuda's simulator."""
    return os.environ.get("NUMBA_ENABLE_CUDASIM", "0") == "1"


def _numbas_cuda() -> Any:
    """Return the CUDA part of numba.

    numba-cuda 0.30 looks for `row_stack`, which was another name of `vstack` and is not in NumPy 2.5.
    """
    names, is_there = vars(np), "row_stack" in vars(np)
    try:
        names.setdefault("row_stack", np.vstack)
        found = import_module("numba.cuda")
        if not is_simulated() and find_spec("numba_cuda"):
            import_module("numba.cuda.np.arrayobj")
        return found
    finally:
        if not is_there:
            del names["row_stack"]


cuda = _numbas_cuda()

THREADS_OF_A_BLOCK = 64
"""Lanes that a multiprocessor takes up together, at most. Small blocks use up its registers best: what is
left over is less than what a block needs."""

_INSIDE = threading.RLock()
"""Held inside `unfused`."""

_QUEUE = threading.local()
"""Has the `stream` of a thread inside `own_queue`: what it asks the GPU for, one thing after the other."""

_FUNCTIONS = ModuleType("functions")
_FUNCTIONS.__dict__.update({**vars(np), "sqrt": math.sqrt, "copysign": math.copysign})
"""The replacement of NumPy in device functions: numba-cuda lacks some of its scalar functions."""


def what_is_missing() -> str:
    """Return one sentence about what is missing for a GPU, and how to get it; empty if nothing is."""
    if is_simulated():
        return ""
    if find_spec("numba_cuda") is None:
        return "numba-cuda is not installed: pip install 'gainbias[gpu]'"
    try:
        if cuda.is_available():
            return ""
    except Exception as error:
        return (
            f"the driver of the GPU does not answer ({error}): install or update it from nvidia.com/drivers"
        )
    return (
        "no NVIDIA GPU, or no driver for it, was found: nvidia-smi should list one; the driver is from "
        "nvidia.com/drivers"
    )


def device_name() -> str:
    """Return the name of the GPU."""
    if is_simulated():
        return "numba-cuda's simulator, slow: NUMBA_ENABLE_CUDASIM is set"
    device = cuda.get_current_device()
    name = device.name.decode() if isinstance(device.name, bytes) else device.name
    return "{}, compute capability {}.{}".format(name, *device.compute_capability)


@cache
def multiprocessors() -> int:
    """Return how many parts a GPU has that work on their own."""
    return 1 if is_simulated() else int(cuda.get_current_device().MULTIPROCESSOR_COUNT)


def free_memory() -> int:
    """Return how many bytes of the GPU's memory are free."""
    if is_simulated():
        return 2**30
    context = cuda.current_context()
    # Numba keeps the memory of deleted arrays for a while: it may be a fifth of all.
    context.memory_manager.deallocations.clear()
    return int(context.get_memory_info().free)


@contextlib.contextmanager
def memory_errors_in_words() -> Iterator[None]:
    """Turn the driver's error for memory that is not there into one that says what to do.

    What is asked for fits into what was free before: another program has taken it since.
    """
    try:
        yield
    except Exception as error:
        if "OUT_OF_MEMORY" not in str(error):  # of several types, which depend on numba-cuda and the driver
            raise
        raise MemoryError(
            "the GPU has no memory left, of which other programs take a part: end those that nvidia-smi "
            "lists, or use device='cpu'"
        ) from error


@contextlib.contextmanager
def own_queue() -> Iterator[None]:
    """Let the GPU do what this thread asks for inside the block beside what others do.

    A few thousand threads are a small part of a GPU: several such launches go on at once.
    """
    _QUEUE.stream = 0 if is_simulated() else cuda.stream()
    try:
        yield
    finally:
        _QUEUE.stream = 0


@contextlib.contextmanager
def several_queues() -> Iterator[None]:
    """Free nothing of the GPU's memory inside the block, in which threads have queues of their own.

    To free some waits for what all of them asked for, and two threads must not do it at once.
    """
    if is_simulated():
        yield
        return
    free_memory()  # which frees what is waiting for that
    with cuda.defer_cleanup():
        yield


def _stream() -> Any:
    return getattr(_QUEUE, "stream", 0)


def _wait() -> None:
    """Wait until the GPU has done what this thread asked for; without a queue of its own, it has."""
    if _stream():
        _stream().synchronize()


def sent(array: Any) -> Any:
    """Return a copy of an array on the device."""
    return array.copy() if is_simulated() else cuda.to_device(array, stream=_stream())


def empty_there(shape: tuple[int, ...], kind: Any) -> Any:
    """Return an uninitialised array on the device."""
    return np.empty(shape, kind) if is_simulated() else cuda.device_array(shape, kind, stream=_stream())


def fetched(array: Any) -> Any:
    """Return a copy of an array of the device."""
    if is_simulated():
        return array.copy()
    found = array.copy_to_host(stream=_stream())
    _wait()
    return found


def fetch_into(target: Any, array: Any) -> None:
    """Copy an array of the device into one of the host."""
    if is_simulated():
        target[...] = array
    else:
        array.copy_to_host(target, stream=_stream())
        _wait()


def copy_over(target: Any, source: Any) -> None:
    """Copy an array of the device into another one, or an array of the host into one of the device."""
    if is_simulated():
        target[...] = source
    else:
        target.copy_to_device(source, stream=_stream())


def launch(kernel: Any, count: int, *arguments: Any, block: int | None = None) -> None:
    """Run a kernel of `DeviceForms.kernel` with at least `count` threads, in blocks of some size."""
    # Few threads are spread over all multiprocessors: those of one would wait for its memory together.
    threads = min(block or THREADS_OF_A_BLOCK, -(-count // multiprocessors()))
    with unfused(), warnings.catch_warnings():
        # Of few threads on hardware; of overflow on the simulator.
        warnings.simplefilter("ignore")
        kernel[-(-count // threads), threads, _stream()](*arguments)


class DeviceForms:
    """Functions as device functions, each made once.

    Parameters
    ----------
    kinds : sequence of types
        The types by which functions with several implementations are chosen.
    """

    def __init__(self, kinds: Sequence[type]) -> None:
        self._kinds, self._made = kinds, dict[Any, Any]()

    def of(self, function: Any) -> Any:
        """Return the device form of a function."""
        if isinstance(function, ByType):
            function = self._chosen(function)
        if function not in self._made:
            self._made[function] = on_device(self.bound(function))
        return self._made[function]

    def kernel(self, function: Callable[..., Any], most_registers: int | None = None) -> Any:
        """Return a function as a kernel, for `launch` and `assembly`; its threads may have few registers."""
        limit = {"max_registers": most_registers} if most_registers and not is_simulated() else {}
        return cuda.jit(self.bound(function), **_options(), **limit)

    def bound(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function whose names of own functions are bound to device forms."""
        code = function.__code__
        used = {name: function.__globals__[name] for name in _names(code) if name in function.__globals__}
        around = {name: self._there(value) for name, value in used.items()}
        cells = inspect.getclosurevars(function).nonlocals
        closure = tuple(_cell(self._there(cells[name])) for name in code.co_freevars)
        around["__builtins__"] = function.__globals__.get("__builtins__")
        return FunctionType(code, around, function.__name__, function.__defaults__, closure or None)

    def _there(self, value: Any) -> Any:
        if isinstance(value, ByType):
            return self.of(value)
        if hasattr(value, "py_func"):
            return self.of(value.py_func)
        if inspect.isfunction(value):
            return self.of(value)
        if value is np and not is_simulated():
            return _FUNCTIONS
        return value

    def _chosen(self, by_type: ByType) -> Callable[..., Any]:
        found = [by_type.implementations[kind] for kind in self._kinds if kind in by_type.implementations]
        if not found:
            raise ValueError(f"{by_type.__name__} has no form for {[kind.__name__ for kind in self._kinds]}")
        return found[0]


def on_device(function: Callable[..., Any]) -> Any:
    """Return a function, all of whose names are bound to device functions, as one of them."""
    return cuda.jit(function, device=True, **_options())


def _options() -> dict[str, Any]:
    return {} if is_simulated() else {"lto": False}


def _names(code: Any) -> Iterator[str]:
    """Yield the globals that code reads; an attribute may have the name of one, and is none."""
    yield from (step.argval for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL")
    for constant in code.co_consts:
        if inspect.iscode(constant):
            yield from _names(constant)


def _cell(value: Any) -> Any:
    return (lambda: value).__closure__[0]  # type: ignore[index]


@contextlib.contextmanager
def unfused() -> Iterator[None]:
    """Make code compiled inside the block round each product before it is added.

    Only one thread at a time is inside, because the change affects all threads.
    """
    with _INSIDE:
        if is_simulated():
            yield
            return
        from numba.cuda.cudadrv import nvvm

        compile_ir = nvvm.compile_ir
        nvvm.compile_ir = lambda source, **options: compile_ir(source, **{**options, "fma": False})
        try:
            yield
        finally:
            nvvm.compile_ir = compile_ir


@contextlib.contextmanager
def _imagined(capability: tuple[int, int]) -> Iterator[None]:
    """Let functions be compiled for a GPU of some capability, whether or not one is here."""
    from numba.cuda import dispatcher

    before = dispatcher.get_current_device
    dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=capability)
    try:
        yield
    finally:
        dispatcher.get_current_device = before


def lane_number() -> int:
    """Return the number of the thread, in a kernel."""
    return int(cuda.grid(1))


def assembly(kernel: Any, signature: Any, capability: tuple[int, int] = (9, 0)) -> str:
    """Return the assembly of a kernel for a GPU of some capability, which need not be present."""
    if kernel.targetoptions["lto"]:
        raise RuntimeError("a kernel that is optimised when it is linked has no assembly of its own")
    with unfused(), _imagined(capability):
        text, _ = cuda.compile_ptx(kernel.py_func, signature, device=False, cc=capability)
    return str(text)


def lane_views(kind: type, laned: bool) -> Callable[..., Any]:
    """Return a function that views one lane of a NamedTuple of arrays whose last axis is that of lanes.

    With `laned` the views keep that axis, with length 1; without it, arrays of numbers become numbers.
    """
    fields: Sequence[str] = getattr(kind, "_fields", ())
    parts: Callable[..., Any] = _no_parts
    for number in range(len(fields)):
        parts = _and_part(on_device(parts), number, laned)
    parts = on_device(parts)

    def view(arrays: Any, lane: int) -> Any:
        return kind(*parts(arrays, lane))

    return view


def _no_parts(arrays: Any, lane: int) -> tuple[Any, ...]:
    return ()


def _and_part(before: Any, number: int, laned: bool) -> Callable[..., Any]:
    def kept(arrays: Any, lane: int) -> tuple[Any, ...]:
        return (*before(arrays, lane), arrays[number][..., lane : lane + 1])

    def cut(arrays: Any, lane: int) -> tuple[Any, ...]:
        return (*before(arrays, lane), arrays[number][..., lane])

    return kept if laned else cut


class LanePart(NamedTuple):
    """An array of the state of one lane: its shape, and whether it holds floats.

    Of one that `is_cut` the first axis may be shorter; what kernels know is the length of the memory for it.
    """

    shape: tuple[int, ...]
    is_float: bool
    is_cut: bool = False


WIDTHS = 64
"""Kernels for any number of features have room for a multiple of this many."""


def part_of(array: Any, laned: bool, any_width: bool) -> LanePart:
    """Return what one lane has of an array with a last axis for lanes, which it keeps if it is `laned`.

    With `any_width` the first axis may have another length next time, and is cut.
    """
    own, one = list(array.shape[:-1]), [1] if laned else []
    is_cut = any_width and own[:1] > [1]
    if is_cut:
        own[0] = -(-own[0] // WIDTHS) * WIDTHS
    return LanePart((*own, *one), array.dtype.kind == "f", is_cut)


def around_lane(
    inner: Callable[..., None], kind: type, parts: Sequence[LanePart], laned: bool, copied: bool
) -> Any:
    """Return a device function that calls another one with one lane of a state, and checks the lane then.

    Parameters
    ----------
    inner : callable (state, lane, rest) -> None
        A device function.
    kind : type
        The NamedTuple class of the state.
    parts : sequence of LanePart
        What its arrays are for one lane.
    laned : bool
        Whether these have a last axis for lanes, of length 1.
    copied : bool
        Whether `inner` works on a copy in the thread's own memory, which replaces the lane in the end.

    Returns
    -------
    device function (arrays, lane, rest) -> bool
        Its arrays have a last axis for all lanes. It returns whether all floats of the lane are finite.
    """

    def innermost(arrays: Any, lane: int, own: Any, rest: Any) -> bool:
        inner(kind(*own), lane, rest)
        return True

    around: Callable[..., Any] = innermost
    for number, part in reversed(list(enumerate(parts))):
        with_copy = copied and 0 not in part.shape and part.shape != ()
        around = (_with_copy if with_copy else _with_view)(on_device(around), number, part, laned)
    around = on_device(around)

    def whole(arrays: Any, lane: int, rest: Any) -> bool:
        return around(arrays, lane, (), rest)

    return on_device(whole)


def _with_copy(inner: Any, number: int, part: LanePart, laned: bool) -> Callable[..., bool]:
    shape, kind = part.shape, np.float64 if part.is_float else np.int64
    copy, good = _copying(len(shape)), _all_finite(len(shape), part.is_float)
    is_cut = part.is_cut

    def around(arrays: Any, lane: int, own: Any, rest: Any) -> bool:
        room = cuda.local.array(shape, kind)
        given = arrays[number][..., lane : lane + 1] if laned else arrays[number][..., lane]
        mine = room[: given.shape[0]] if is_cut else room
        copy(given, mine)
        others = inner(arrays, lane, (*own, mine), rest)
        copy(mine, given)
        return others and good(given)

    return around


def _with_view(inner: Any, number: int, part: LanePart, laned: bool) -> Callable[..., bool]:
    good = _all_finite(len(part.shape), part.is_float)

    def around(arrays: Any, lane: int, own: Any, rest: Any) -> bool:
        given = arrays[number][..., lane : lane + 1] if laned else arrays[number][..., lane]
        others = inner(arrays, lane, (*own, given), rest)
        return others and good(given)

    return around


def _copying(axes: int) -> Any:
    """Return a device function that copies an array with some axes into another one."""

    def numbers(source: Any, target: Any) -> None:
        for i in range(target.shape[0]):
            target[i] = source[i]

    if axes == 1:
        return on_device(numbers)
    inner = _copying(axes - 1)

    def rows(source: Any, target: Any) -> None:
        for i in range(target.shape[0]):
            inner(source[i], target[i])

    return on_device(rows)


def _all_finite(axes: int, is_float: bool) -> Any:
    """Return a device function that says whether all numbers of an array with some axes are finite."""

    def always(array: Any) -> bool:
        return True

    def number(array: Any) -> bool:
        return math.isfinite(array)

    if axes == 0 or not is_float:
        return on_device(number if is_float else always)
    inner = _all_finite(axes - 1, is_float)

    def numbers(array: Any) -> bool:
        good = True
        for i in range(array.shape[0]):
            good = good and inner(array[i])
        return good

    return on_device(numbers)
