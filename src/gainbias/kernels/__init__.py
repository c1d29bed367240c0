"""How kernels are compiled: the decorators that turn plain loops into machine code.

A kernel is a function over floats, integers and arrays in the subset of Python that numba compiles, written
with scalar loops so that its Python form (`kernel.py_func`) runs unchanged and gives the same bits. This room
is the only one that imports numba.

Start reading in `compile`; `cache` decides when compiled code is kept and used again; `numba_internals` holds
the few parts that depend on the internals of numba. Other rooms import the names below.
"""

from gainbias.kernels.cache import cache_folder
from gainbias.kernels.compile import ByType, bare_kernel, inlined, kernel, light_work, plain_form

__all__ = ["ByType", "bare_kernel", "cache_folder", "inlined", "kernel", "light_work", "plain_form"]
