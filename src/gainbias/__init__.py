"""What a policy is worth in the long run: the gain and the bias of Markov reward processes.

The public names below are imported on first use (PEP 562), so that ``import gainbias`` costs nothing.
"""

from importlib import import_module
from typing import Any

__version__ = "0.2.0"

_HOMES = {
    "ALGORITHMS": "gainbias.algorithms.registry",
    "AccuracyWarning": "gainbias.model.solve.solution",
    "ActionFeatures": "gainbias.evaluation.another.chances",
    "Algorithm": "gainbias.algorithms.algorithm",
    "Bound": "gainbias.theory.bounds.record",
    "Checkpoints": "gainbias.engine.work",
    "Columns": "gainbias.evaluation.sources.columns",
    "Comparison": "gainbias.evaluation.compare",
    "ConditionNumbers": "gainbias.model.conditioning",
    "Constant": "gainbias.engine.schedules",
    "ConvergenceError": "gainbias.model.solve.solution",
    "Curve": "gainbias.theory.curve.curve",
    "Declared": "gainbias.algorithms.algorithm",
    "Diagnostics": "gainbias.evaluation.diagnostics",
    "DiscountedValues": "gainbias.model.chain.discounting",
    "Estimate": "gainbias.evaluation.estimate",
    "FiniteHorizonValues": "gainbias.model.chain.horizon",
    "Form": "gainbias.algorithms.algorithm",
    "FourierBasis": "gainbias.features.maps",
    "Harmonic": "gainbias.engine.schedules",
    "GroupedSeries": "gainbias.evaluation.series_estimate",
    "HittingProbabilities": "gainbias.model.chain.passage",
    "HittingTimes": "gainbias.model.chain.passage",
    "LearnedPolicy": "gainbias.tasks.gym.q_learning",
    "Learning": "gainbias.evaluation.values.methods",
    "Markov": "gainbias.engine.paths",
    "MarkovRewardProcess": "gainbias.model.process",
    "MultichainSolution": "gainbias.model.solve.solution",
    "Outcome": "gainbias.engine.trace",
    "PaperNumbers": "gainbias.tasks.paper",
    "ParameterRange": "gainbias.algorithms.algorithm",
    "Polynomial": "gainbias.engine.schedules",
    "PolynomialBasis": "gainbias.features.maps",
    "Problem": "gainbias.model.problem",
    "QuantileEstimate": "gainbias.evaluation.gain.quantiles",
    "RadialBasis": "gainbias.features.maps",
    "Recipe": "gainbias.tasks.task",
    "Recommendation": "gainbias.theory.recommend",
    "RequestLog": "gainbias.evaluation.sources.records",
    "Results": "gainbias.experiments.results",
    "RunLength": "gainbias.evaluation.gain.interval",
    "RunningMean": "gainbias.evaluation.gain.anytime",
    "Sensitivity": "gainbias.model.solve.sensitivity",
    "SeriesEstimate": "gainbias.evaluation.series_estimate",
    "Solution": "gainbias.model.solve.solution",
    "Structure": "gainbias.model.structure",
    "Study": "gainbias.experiments.study",
    "TASKS": "gainbias.tasks.registry",
    "Tabular": "gainbias.features",
    "Task": "gainbias.tasks.task",
    "TileCoding": "gainbias.features.maps",
    "Trace": "gainbias.engine.trace",
    "TransitionTable": "gainbias.tasks.gym.table",
    "asymptotic_covariance": "gainbias.theory.asymptotics",
    "axpy": "gainbias.features.vectors",
    "bernoulli_features": "gainbias.tasks.paper",
    "bound": "gainbias.theory.bounds.bound",
    "compare": "gainbias.evaluation.compare",
    "compare_policies_on_log": "gainbias.evaluation.compare",
    "continuing": "gainbias.tasks.gym.continuing",
    "deviation": "gainbias.model.chain.deviation",
    "deviation_matrix": "gainbias.model.chain.deviation",
    "discounted_values": "gainbias.model.chain.discounting",
    "dot": "gainbias.features.vectors",
    "efficiency": "gainbias.theory.asymptotics",
    "ergodic": "gainbias.tasks.gym.continuing",
    "evaluate": "gainbias.evaluation.evaluate",
    "evaluate_log": "gainbias.evaluation.evaluate",
    "evaluate_series": "gainbias.evaluation.series",
    "exact_curve": "gainbias.theory.curve.curve",
    "finite_horizon_values": "gainbias.model.chain.horizon",
    "from_gymnasium": "gainbias.tasks.gym.installed",
    "gymnasium_table": "gainbias.tasks.gym.installed",
    "hitting_probabilities": "gainbias.model.chain.passage",
    "hitting_times": "gainbias.model.chain.passage",
    "kemeny_constant": "gainbias.model.chain.deviation",
    "load_estimate": "gainbias.evaluation.storage",
    "load_series": "gainbias.evaluation.storage",
    "mixing_constants": "gainbias.theory.bounds.facts",
    "mixing_time": "gainbias.model.chain.mixing",
    "mixing_time_bounds": "gainbias.model.chain.mixing",
    "normalise_features": "gainbias.features",
    "number_in_system": "gainbias.evaluation.sources.records",
    "plot": "gainbias.report.figures.plot",
    "projection_radii": "gainbias.theory.bounds.facts",
    "q_learning": "gainbias.tasks.gym.q_learning",
    "read_requests": "gainbias.evaluation.sources.records",
    "recommend": "gainbias.theory.recommend",
    "sample_complexities": "gainbias.theory.bounds.table",
    "reproduce": "gainbias.experiments.reproduce",
    "run": "gainbias.engine.run",
    "scalarise": "gainbias.tasks.gym.table",
    "second_eigenvalue_modulus": "gainbias.model.chain.mixing",
    "solve": "gainbias.model.solve.solve",
    "solve_field": "gainbias.algorithms.fields",
    "spectral_gap": "gainbias.model.chain.mixing",
    "sweep": "gainbias.experiments.sweep",
    "task": "gainbias.tasks.registry",
    "td_field": "gainbias.algorithms.fields",
    "testing": "gainbias",
    "write_page": "gainbias.report.write",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gainbias' has no attribute {name!r}")
    home = _HOMES[name]
    value = import_module(f"gainbias.{name}") if home == "gainbias" else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
