"""Solves as a GPU would do them: in the simulator of numba, and compiled for a GPU, without one.

Both happen in separate processes, because the simulator is chosen when numba's CUDA part is imported.
"""

import importlib.util
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import gainbias as gb
from gainbias.kernels import gpu
from gainbias.model.solve import on_gpu
from tests.model.gpu_solves import CHAINS

CUDA = importlib.util.find_spec("numba.cuda.simulator") or importlib.util.find_spec("numba_cuda")
needs_simulator = pytest.mark.skipif(CUDA is None, reason="this numba has no simulator of GPUs")


def said(simulated: bool, *words: str) -> str:
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1" if simulated else "0"}
    program = [sys.executable, "-m", "tests.model.gpu_solves", *words]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
@needs_simulator
@pytest.mark.parametrize("method", on_gpu.GPU_METHODS)
@pytest.mark.parametrize("chain", CHAINS)
def test_simulated_solves_are_right_to_their_errors(chain, method) -> None:
    assert said(True, chain, method) == "as it should be"


@pytest.mark.slow
@needs_simulator
@pytest.mark.parametrize(
    "what", ["arithmetic", "transposition", "residuals", "refused", "mutants", "memory", "at_once"]
)
def test_simulated_parts(what) -> None:
    assert said(True, what) == "as it should be"


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("numba_cuda") is None or importlib.util.find_spec("nvidia") is None,
    reason="numba-cuda or NVVM is not installed: pip install 'gainbias[gpu]'",
)
def test_kernels_compile_without_fused_operations() -> None:
    assert said(False, "assembly").endswith("kernels: as it should be")


class TestRefused:
    mrp = gb.MarkovRewardProcess([[0.5, 0.5], [0.25, 0.75]], [1.0, 2.0])

    def test_without_the_package(self, monkeypatch) -> None:
        monkeypatch.setattr(gpu, "is_simulated", lambda: False)
        monkeypatch.setattr(gpu, "find_spec", lambda name: None)
        with pytest.raises(ValueError, match=r"not work here, because numba-cuda is not.*gainbias\[gpu\]"):
            gb.solve(self.mrp, device="gpu")

    def test_another_device(self) -> None:
        with pytest.raises(ValueError, match="device must be 'cpu' or 'gpu', found 'tpu'"):
            gb.solve(self.mrp, device="tpu")

    def test_what_only_the_processor_does(self, monkeypatch) -> None:
        monkeypatch.setattr(on_gpu, "what_is_missing", str)
        for method in ("dense-gth", "sparse-gth", "incomplete-gth", "aggregation"):
            with pytest.raises(
                ValueError, match=f"method='{method}' runs on the processor: use device='cpu'"
            ):
                gb.solve(self.mrp, method=method, device="gpu")
        with pytest.raises(ValueError, match="multichain=True is for the processor"):
            gb.solve(self.mrp, multichain=True, device="gpu")

    def test_more_than_its_memory(self, monkeypatch) -> None:
        monkeypatch.setattr(on_gpu, "what_is_missing", str)
        monkeypatch.setattr(on_gpu, "free_memory", lambda: 100)
        with pytest.raises(ValueError, match=r"2 states with 4 transitions need about .* GB are free"):
            gb.solve(self.mrp, device="gpu")

    def test_more_than_max_memory(self, monkeypatch) -> None:
        monkeypatch.setattr(on_gpu, "what_is_missing", str)
        monkeypatch.setattr(on_gpu, "free_memory", lambda: 2**30)
        with pytest.raises(ValueError, match="of the GPU's memory"):
            gb.solve(self.mrp, max_memory=100.0, device="gpu")

    def test_memory_that_another_program_took(self, monkeypatch) -> None:
        def refuse(_: object) -> None:
            raise RuntimeError("[2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY")

        monkeypatch.setattr(on_gpu, "what_is_missing", str)
        monkeypatch.setattr(on_gpu, "free_memory", lambda: 2**30)
        monkeypatch.setattr(on_gpu, "sent", refuse)
        with pytest.raises(MemoryError, match=r"the GPU has no memory left, of which .* use device='cpu'"):
            gb.solve(self.mrp, device="gpu")

    def test_huge_rewards(self, monkeypatch) -> None:
        monkeypatch.setattr(on_gpu, "what_is_missing", str)
        monkeypatch.setattr(on_gpu, "free_memory", lambda: 2**30)
        huge = gb.MarkovRewardProcess(self.mrp.csr, np.array([0.0, 1e300]))
        with pytest.raises(ValueError, match=r"rewards above 2\*\*850"):
            gb.solve(huge, device="gpu")
        mrp = gb.MarkovRewardProcess(self.mrp.csr, self.mrp.rewards)
        with pytest.raises(ValueError, match=r"rewards above 2\*\*850"):
            gb.solve(mrp, device="gpu", extra_rewards={"huge": np.array([0.0, -1e300])})


def test_one_thread_at_a_time_changes_how_kernels_are_compiled(monkeypatch) -> None:
    nvvm = pytest.importorskip("numba.cuda.cudadrv.nvvm")
    monkeypatch.setattr(gpu, "is_simulated", lambda: False)
    monkeypatch.setattr(nvvm, "compile_ir", lambda source, **options: options, raising=False)
    usual, entered, left, found = nvvm.compile_ir, threading.Event(), threading.Event(), []

    def other() -> None:
        with gpu.unfused():
            entered.set()
            left.wait(10.0)
            found.append(nvvm.compile_ir(""))

    thread = threading.Thread(target=other)
    with gpu.unfused():
        thread.start()
        entered.wait(0.1)
    left.set()
    thread.join()
    assert found == [{"fma": False}]
    assert nvvm.compile_ir is usual
