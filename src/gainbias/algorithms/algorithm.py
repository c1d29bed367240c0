"""What an algorithm is: the record `Algorithm`, and the small records that its functions take and return.

In this order: the range of parameters (`ParameterRange`), the inputs and the output of an algorithm
(`Move`, `Setting`, `Output`), how it is computed (`Form`), what is claimed and said about it (`Declared`,
`About`), and the whole (`Algorithm`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from gainbias.model.problem import Problem
from gainbias.notebook import InNotebooks
from gainbias.types import Floats


@dataclass(frozen=True)
class ParameterRange:
    """The values that a parameter may take, from `least` to `most`; the fields say whether ends are included.

    Examples
    --------
    >>> import gainbias as gb
    >>> fraction = gb.ParameterRange(0.0, 1.0, with_least=True)
    >>> 0.0 in fraction, 1.0 in fraction, str(fraction)
    (True, False, 'at least 0 and below 1')
    """

    least: float
    most: float
    with_least: bool = False
    with_most: bool = False

    def __contains__(self, number: float) -> bool:
        above = number >= self.least if self.with_least else number > self.least
        return above and (number <= self.most if self.with_most else number < self.most)

    def __str__(self) -> str:
        low = f"{'at least' if self.with_least else 'above'} {self.least:g}"
        if self.most == np.inf:
            return low + (", infinity allowed" if self.with_most else " and finite")
        return f"{low} and {'at most' if self.with_most else 'below'} {self.most:g}"


POSITIVE = ParameterRange(0.0, np.inf)
NOT_NEGATIVE = ParameterRange(0.0, np.inf, with_least=True)
RADIUS = ParameterRange(0.0, np.inf, with_most=True)
FRACTION = ParameterRange(0.0, 1.0, with_least=True)


PerLane: TypeAlias = Any
"""A number for each lane: an array of shape (lanes,) if lanes run together, otherwise a float."""

Weights: TypeAlias = Floats


class Move(NamedTuple):
    """One transition of the first chain and one of the second, which is independent of it.

    Attributes
    ----------
    here, after, reward
        State, next state and reward of the first chain.
    other, other_after, other_reward
        The same of the second chain; without meaning for algorithms that use one chain.
    """

    here: Any
    after: Any
    reward: Any
    other: Any
    other_after: Any
    other_reward: Any


@dataclass(frozen=True, eq=False)
class Setting:
    """What an algorithm is told before its first step.

    Attributes
    ----------
    weights : (d, lanes) array, or (d,) for steps of one lane
        The first weights.
    ones_weights : (d,) array or None
        Weights that give every state the value 1, if there are any.
    max_abs_reward : float
        Bound of the rewards.
    feature_lengths : (d,) array, optional
        Lengths of the columns of the features, if they are known.
    """

    weights: Weights
    ones_weights: Floats | None
    max_abs_reward: float
    feature_lengths: Floats | None = None

    @property
    def num_features(self) -> int:
        """Number of features d."""
        return len(self.weights)

    @property
    def lengths(self) -> Floats:
        """Lengths of the columns of the features, (d,), or ones."""
        return np.ones(self.num_features) if self.feature_lengths is None else self.feature_lengths

    def zeros(self) -> Floats:
        """Return a zero for each lane: shape (lanes,), or (1,) for steps of one lane."""
        return np.zeros(self.weights.shape[1] if self.weights.ndim == 2 else 1)


class NoParams(NamedTuple):
    """Parameters of an algorithm that has none."""


class Output(NamedTuple):
    """What an algorithm has learned: weights like those of `Setting`, and its gain if it estimates one."""

    weights: Weights
    gain: Floats | None


class Field(NamedTuple):
    """The mean update b - A theta: `matrix` A of shape (d, d) and `vector` b of shape (d,)."""

    matrix: Floats
    vector: Floats


class Sample(NamedTuple):
    """Feature rows (d,) and rewards of one `Move`."""

    here: Floats
    after: Floats
    reward: float
    other: Floats
    other_after: Floats
    other_reward: float


def read_state(state: Any, params: Any, setting: Setting) -> Output:
    """Return the fields `weights` and, if there is one, `gain` of a state."""
    return Output(state.weights, getattr(state, "gain", None))


def always(params: Any) -> bool:
    """Return True, whatever the parameters are."""
    return True


def never(params: Any) -> bool:
    """Return False, whatever the parameters are."""
    return False


class OwnAverage(NamedTuple):
    """How a form averages its weights over steps, if its state does not contain them directly.

    `begin` makes a state forget the weights of the steps so far; `output` returns its output, with the mean
    of the weights after each of the `steps` steps since then.
    """

    begin: Callable[[Any], None]
    output: Callable[[Any, Any, Setting, int], Output]


@dataclass(frozen=True, eq=False)
class Form:
    """How an algorithm is computed.

    Attributes
    ----------
    init : callable (setting, params) -> state
        State before the first step: a NamedTuple of arrays that belongs to this form alone, and that shares
        no memory with the setting.
    step : callable (state, params, rows, move, step_size) -> None
        One update of the state, in the subset of Python for kernels. It allocates nothing.
    output : callable (state, params, setting) -> Output
        What has been learned, from the state; not compiled.
    laned : bool
        Whether arrays of state, parameters and step sizes have a trailing axis for lanes. Otherwise the step
        is for one lane, with floats as parameters and step size, and lanes are run one by one.
    touches_rows : callable (params) -> bool
        Whether a step changes only the weights of features that are not zero in the rows of the states
        `here` and `other` of its move.
    own_average : OwnAverage, optional
        For a state without a field `weights`.

    Examples
    --------
    >>> import gainbias as gb
    >>> gb.ALGORITHMS["double-chain"].form.laned
    True
    """

    init: Callable[[Setting, Any], Any]
    step: Callable[..., None]
    output: Callable[[Any, Any, Setting], Output] = read_state
    laned: bool = False
    touches_rows: Callable[[Any], bool] = never
    own_average: OwnAverage | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Declared:
    """What is claimed about an algorithm, for `gainbias.testing` to check; everything is optional.

    Declare at least a limit: without it no check can tell a right algorithm from a wrong one. A
    `mean_field` and a `sample_field` also give the algorithm exact learning curves and covariances.

    Attributes
    ----------
    limit : callable (problem, params, first weights) -> (d,) array or None, optional
        The weights it converges to on a chain; None if not known for these parameters.
    limit_is_line : bool
        Whether the limit is known only up to a constant value if features span the constant values.
    rate : float, optional
        Power of 1/t of the mean squared error, for large enough step sizes a/t or its constant one.
    discounted : bool
        Whether it discounts rewards, so that adding a number to all of them moves its limit.
    shift_invariant : bool
        Whether adding a number to all rewards changes no weight (beyond rounding) on any path.
    mean_field : callable (problem, params) -> Field, optional
        Mean update of the weights, divided by the step size, with all other fields of the state at their
        limits.
    frozen : callable (problem, params, here, weights) -> dict, optional
        These limits, by field, given that the chain is in the state `here` and given the weights, (d,).
    small_steps_only : bool
        Whether the mean field holds only for step sizes that go to 0.
    sample_field : callable (sample, params, step_size) -> (X, y) or None, optional
        The step as ``x + step_size * (y - X x)``, with x the affine fields put one after the other; None
        if with these parameters the step is not affine.
    affine : tuple of str
        Fields of the state in which a step is jointly affine, in the order of `sample_field`.
    frozen_field : callable (sample, params, step_size) -> (X, y) or None, optional
        The same for the weights alone, while running means that multiply them stay at their limits: that of
        the features is `sample.other`, that of the rewards `sample.other_reward`.
    mean_ratio : callable (params) -> float, optional
        Step size of those means over that of the weights; if missing, their steps have the sizes 1 / t.
    tabular_only : bool
        Whether it exists only for one feature per state.
    needs_ones_outside_span : bool
        Whether it fails when features span the constant values.
    step_free : bool
        Whether it has no step sizes, and ignores those given.
    constant_step : float, optional
        The constant step size it is meant for, if not for ones that shrink.
    overshoots : bool
        Whether step sizes above 1 are too large for feature rows of length 1.
    bitwise : bool
        Whether compiled steps give the same bits as Python does; otherwise they agree to 12 digits.
    trial_params : mapping of str to float
        Parameters with which short runs show what it does, if not the defaults.

    Examples
    --------
    >>> import gainbias as gb
    >>> gb.ALGORITHMS["double-chain"].declared.rate
    1.0
    """

    # Where it converges to
    limit: Callable[[Problem, Any, Floats], Floats | None] | None = None
    limit_is_line: bool = False
    rate: float | None = None
    discounted: bool = False
    shift_invariant: bool = False
    # The mean update
    mean_field: Callable[[Problem, Any], Field] | None = None
    frozen: Callable[[Problem, Any, int, Floats], dict[str, Any]] | None = None
    small_steps_only: bool = False
    # The single step
    sample_field: Callable[[Sample, Any, float], tuple[Floats, Floats] | None] | None = None
    affine: tuple[str, ...] = ()
    frozen_field: Callable[[Sample, Any, float], tuple[Floats, Floats] | None] | None = None
    mean_ratio: Callable[[Any], float] | None = None
    # How it is to be used
    tabular_only: bool = False
    needs_ones_outside_span: bool = False
    step_free: bool = False
    constant_step: float | None = None
    overshoots: bool = True
    bitwise: bool = True
    trial_params: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, kw_only=True)
class About:
    """What tables and pages say about an algorithm; nothing is computed from it.

    Attributes
    ----------
    title : str
        Its title.
    short_title : str
        Its title in tables and figures; the paper calls td-lambda coupled SA.
    reference : str
        Its sources: keys of `REFERENCES`, separated by "; ".
    converges_to, not_guaranteed : str
        What its weights approach, and what nobody has shown.
    table_row : str
        Its row of the table that compares earlier work in the paper, if it has one.
    ours, reconstructed : bool
        Whether it is this package's own, or rebuilt from a description that leaves details open.
    """

    title: str = ""
    short_title: str = ""
    reference: str = ""
    converges_to: str = ""
    not_guaranteed: str = ""
    table_row: str = ""
    ours: bool = False
    reconstructed: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class Algorithm(InNotebooks):
    """An algorithm that learns weights: what a run needs, and what is claimed about the algorithm.

    Only `name` and `form` are needed to run it, and `params` if it has any.

    Attributes
    ----------
    name : str
        Its id, in small letters with hyphens.
    form : Form
        How it is computed.
    sparse_form : Form, optional
        How it is computed for sparse and tabular features, if that differs.
    params : type
        A NamedTuple class; its fields are the parameters with their defaults.
    bounds : mapping of str to ParameterRange
        Which numbers each parameter may be.
    chains : {1, 2}
        How many independent chains it samples, which is how many transitions a step consumes.
    declared : Declared
        What is claimed about it: `gainbias.testing` checks it.
    about : About
        What tables and pages say about it; your own algorithm needs none of that.

    Examples
    --------
    Discounted TD(0), written for one lane; it runs compiled. Its limit and the bounds of its parameter are
    declared, so that `gainbias.testing.check_algorithm` can tell whether it is right:

    >>> import gainbias as gb
    >>> from gainbias import axpy, dot
    >>> from typing import NamedTuple
    >>> class Params(NamedTuple):
    ...     discount: float = 0.9
    >>> class State(NamedTuple):
    ...     weights: np.ndarray
    >>> def init(setting, params):
    ...     return State(setting.weights.copy())
    >>> def step(state, params, rows, move, step_size):
    ...     here, after = dot(rows, move.here, state.weights), dot(rows, move.after, state.weights)
    ...     delta = move.reward + params.discount * after - here
    ...     axpy(rows, move.here, step_size * delta, state.weights)
    >>> def limit(problem, params, first):
    ...     return gb.solve_field(problem, gb.td_field(problem, discount=params.discount))
    >>> mine = gb.Algorithm(
    ...     name="my-td",
    ...     form=gb.Form(init, step),
    ...     params=Params,
    ...     bounds={"discount": gb.ParameterRange(0.0, 1.0, with_least=True)},
    ...     declared=gb.Declared(limit=limit, discounted=True),
    ... )
    >>> mrp = gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0])
    >>> gb.run(mine, gb.Problem(mrp, gb.Tabular()), 1000, 0.1, params={"discount": [0.5, 0.9]})
    Trace(my-td, 2 lanes, 1000 steps: 2 finished)
    """

    name: str
    form: Form
    sparse_form: Form | None = None
    params: Any = NoParams
    bounds: Mapping[str, ParameterRange] = field(default_factory=dict)
    chains: Literal[1, 2] = 1
    declared: Declared = Declared()
    about: About = About()

    def form_for(self, kind: str) -> Form:
        """Return the form for features of a kind: "dense", "sparse" or "tabular"."""
        return self.form if kind == "dense" or self.sparse_form is None else self.sparse_form

    def __repr__(self) -> str:
        return f"Algorithm({self.name!r})"
