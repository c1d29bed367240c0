"""A program: lanes of an algorithm in the simulator, compared with `gb.run`; or what they compile to."""

import sys

import numpy as np
import scipy.sparse
from numba import cuda, typeof

import gainbias as gb
from gainbias.algorithms.algorithm import Setting
from gainbias.engine.device import kernel_for, stream_words
from gainbias.engine.paths import Sampler, stream
from gainbias.features.matrix import column_lengths
from gainbias.features.rows import DenseRows, rows_of
from gainbias.kernels import gpu

SEEDS, STEPS = (0, 1, 2), 200


def problems() -> dict[str, gb.Problem]:
    """Return a small chain with features of each kind."""
    rng = np.random.default_rng(0)
    mrp = gb.MarkovRewardProcess(rng.dirichlet(np.ones(12), 12), rng.random(12))
    dense = rng.random((12, 4)) / 3.0
    few = scipy.sparse.csr_array(np.where(dense > 0.12, dense, 0.0))
    return {
        "dense": gb.Problem(mrp, dense),
        "sparse": gb.Problem(mrp, few),
        "tabular": gb.Problem(mrp, gb.Tabular()),
    }


class Lanes:
    """One lane for each seed, as the kernel wants them."""

    def __init__(self, algorithm: gb.Algorithm, problem: gb.Problem) -> None:
        self.algorithm, self.problem, self.form = algorithm, problem, algorithm.form_for(problem.features.kind)
        defaults = {**algorithm.params._field_defaults, **algorithm.declared.trial_params}
        self.numbers = {name: float(defaults[name]) for name in algorithm.params._fields}
        self.one = self.form.init(self.setting, self.params)
        self.states = type(self.one)(*map(self.spread, self.one))

    @property
    def params(self):
        wrap = (lambda x: np.array([x])) if self.form.laned else float
        return self.algorithm.params(**{name: wrap(number) for name, number in self.numbers.items()})

    @property
    def setting(self) -> Setting:
        d = self.problem.num_features
        first = np.zeros((d, 1)) if self.form.laned else np.zeros(d)
        lengths = column_lengths(self.problem.features)
        return Setting(first, self.problem.ones_weights, self.problem.mrp.max_abs_reward, lengths)

    def spread(self, array: np.ndarray) -> np.ndarray:
        return np.repeat(array if self.form.laned else array[..., None], len(SEEDS), axis=-1)

    def arguments(self) -> tuple:
        rows, sampler = rows_of(self.problem.features), Sampler(self.problem.mrp)
        if isinstance(rows, DenseRows):
            rows = DenseRows(rows.matrix.copy())
        params = self.algorithm.params(**{name: np.full(len(SEEDS), x) for name, x in self.numbers.items()})
        chains = []
        for name in ("first chain", "second chain"):
            words = [stream_words(stream(seed, name, "markov")) for seed in SEEDS]
            starts = [int(stream(seed, name, "start").random() * 12) for seed in SEEDS]
            chains += [np.array(words, np.uint64).T.copy(), np.array(starts)]
        ratios = np.repeat([[2.0], [1.0], [10.0]], len(SEEDS), axis=1)
        return self.states, params, rows, sampler.table, *chains, ratios, np.zeros(len(SEEDS)), 0, STEPS

    def weights(self, lane: int) -> np.ndarray:
        cut = slice(lane, lane + 1) if self.form.laned else lane
        state = type(self.one)(*(array[..., cut] for array in self.states))
        return self.form.output(state, self.params, self.setting).weights.ravel()


def main(name: str) -> None:
    """Print a line for each kind of features."""
    algorithm = gb.ALGORITHMS[name]
    for kind, problem in problems().items():
        if algorithm.declared.tabular_only and kind != "tabular":
            continue
        lanes = Lanes(algorithm, problem)
        arguments = lanes.arguments()
        kernel = kernel_for(lanes.form, type(lanes.one), algorithm.params, arguments[2], algorithm.chains)
        if not gpu.is_simulated():
            text = gpu.assembly(kernel, tuple(map(typeof, arguments)))
            print(f"{name} {kind}: {text.count('fma.')} fused")
            continue
        with np.errstate(all="ignore"):
            cuda.jit(kernel)[1, len(SEEDS)](*arguments)
        size = gb.Harmonic(2.0, 10.0)
        trace = gb.run(name, problem, STEPS, size, seeds=SEEDS, params=lanes.numbers, checkpoints=[STEPS])
        same = all(np.array_equal(lanes.weights(k), trace.weights[k, -1]) for k in range(len(SEEDS)))
        print(f"{name} {kind}: {'the same bits' if same else 'DIFFERENT BITS'}")


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore")
    main(sys.argv[1])
