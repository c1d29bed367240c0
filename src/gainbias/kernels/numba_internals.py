"""The few parts that depend on the internals of numba, with a fallback for versions that differ.

numba optimises every compiled function and makes machine code of it, even of functions that are only ever
parts of kernels; then it does both again for each kernel that contains them. `part_compiler` returns a
compiler that leaves out this unused work, which saves up to a quarter of the time. (Parts are still
simplified: without that, four paths of a chain with 100 states took twice as long to draw.)

It overrides methods that numba does not promise to keep. If they are missing or take other arguments,
`part_compiler` returns None. Parts are then compiled by plain numba, which takes longer and gives the same
results.
"""

from __future__ import annotations

import inspect
from typing import Any

OVERRIDDEN = ("_optimize_final_module", "_finalize_final_module")
"""The methods of numba's code library that a part library replaces. Neither takes an argument."""

ARGUMENTS = ("typingctx", "targetctx", "library")
"""The first arguments of numba's compiler, which a part compiler passes on."""


def part_compiler() -> Any:
    """Return a compiler class for functions that are only ever parts of kernels, or None.

    None means that the internals of this version of numba differ from those of the versions that were tried.

    Examples
    --------
    >>> compiler = part_compiler()
    >>> compiler is None or compiler.__name__
    'PartCompiler'
    """
    try:
        from numba.core.codegen import JITCodeLibrary
        from numba.core.compiler import Compiler
    except ImportError:
        return None
    library_class: Any = JITCodeLibrary
    compiler_class: Any = Compiler
    if not _is_as_expected(library_class, compiler_class):
        return None

    class PartLibrary(library_class):  # type: ignore[misc]
        """Code that is simplified function by function, and waits for the kernel that it becomes part of."""

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

    class PartCompiler(compiler_class):  # type: ignore[misc]
        """numba's compiler, which puts what it makes into a part library."""

        def __init__(self, typing: Any, target: Any, library: Any, *rest: Any) -> None:
            if library is None:
                library = PartLibrary(target.codegen(), "part")
                library.enable_object_caching()
            super().__init__(typing, target, library, *rest)

    return PartCompiler


def _is_as_expected(library_class: Any, compiler_class: Any) -> bool:
    """Return whether numba's classes have the methods and arguments that a part compiler relies on."""
    methods = [getattr(library_class, name, None) for name in OVERRIDDEN]
    if not all(inspect.isfunction(method) and _parameters(method) == ["self"] for method in methods):
        return False
    if not inspect.isfunction(getattr(library_class, "enable_object_caching", None)):
        return False
    return tuple(_parameters(compiler_class.__init__)[1:4]) == ARGUMENTS


def _parameters(function: Any) -> list[str]:
    return list(inspect.signature(function).parameters)
