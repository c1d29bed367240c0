"""How kernels are compiled: the decorators that turn plain loops into machine code.

A kernel is a function over floats, integers and arrays in the subset of Python that numba compiles, written
with scalar loops so that its Python form (`kernel.py_func`) runs unchanged and gives the same bits. This room
is the only one that imports numba.

Start reading in `compile`; `cache` decides when compiled code is kept and used again; `threads` lets kernels
work side by side; `numba_internals` has the few parts that depend on numba's internals. Other rooms
import the names below.
"""

from gainbias.kernels.cache import cache_folder
from gainbias.kernels.compile import (
    ByType,
    bare_kernel,
    high_product,
    inlined,
    kernel,
    light_work,
    plain_form,
)
from gainbias.kernels.threads import (
    by_blocks,
    constant,
    constant_like,
    count_threads,
    empty_vector,
    is_elsewhere,
    is_large,
    is_worth_sharing,
    share_blocks,
    share_out,
    share_runs,
    threads_at_work,
    usable_cores,
    using_threads,
    work_ahead,
    working_beside,
)

__all__ = [
    "ByType",
    "bare_kernel",
    "by_blocks",
    "cache_folder",
    "constant",
    "constant_like",
    "count_threads",
    "empty_vector",
    "high_product",
    "inlined",
    "is_elsewhere",
    "is_large",
    "is_worth_sharing",
    "kernel",
    "light_work",
    "plain_form",
    "share_blocks",
    "share_out",
    "share_runs",
    "threads_at_work",
    "usable_cores",
    "using_threads",
    "work_ahead",
    "working_beside",
]
