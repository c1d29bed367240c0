"""Every statement of the paper that has a number or a label, with its check.

`STATEMENTS` is in the order of the paper's source. Labels are those of the source; where it has none, they
are the kind and the line, as `tools/paper_statements.py` writes them to `docs/data/paper_statements.json`,
the list with which a test compares this one. Labelled equations inside of proofs are steps of the proof and
have no row.
"""

from __future__ import annotations

from gainbias.theory.statements import equations, minima, one_chain, step_sums, two_chains, updates
from gainbias.theory.statements.statement import Measure, Statement, StatementCheck

BOUND = "`gb.bound`, theory/bounds/"
EQUATION = "`Problem.fixed_point`, model/problem.py"
NUMBERS = "`Problem.condition_numbers`, model/conditioning.py"
DOUBLE_CHAIN = "`double-chain`, algorithms/double_chain.py"
SINGLE_CHAIN = "`single-chain`, algorithms/single_chain/"
PROOF = "theory/statements/"


def _same(measure: Measure, wrong: str) -> StatementCheck:
    """Return the check of an equation."""
    return StatementCheck(measure, wrong, identity=True)


def _below(measure: Measure, wrong: str, small: bool = False) -> StatementCheck:
    """Return the check of an inequality."""
    return StatementCheck(measure, wrong, small=small)


_INTRODUCTION = (
    Statement(
        "tb:comparison",
        "table",
        "Assumptions, limits and sample complexities of nine methods, with eight notes.",
        "`algorithms`, the table of methods",
        _below(minima.half_of_eta3, "eta1 >= eta3"),
        corrected="of note 2, eta1 >= eta3 / 2 is what holds; note 7 does not follow",
        refuted=minima.radius_is_not_small,
        findings=("finding-4", "finding-30", "finding-31", "finding-36", "finding-37"),
        note="The orders that it quotes from other papers are not checked here.",
    ),
    Statement(
        "eq:eta2firstdef",
        "equation",
        "eta2 is the least |Phi x|_Dir^2 over unit x whose entries sum to 0.",
        NUMBERS,
        _below(minima.eta2_order, "the order of eta1 and eta2 the other way round"),
        corrected="over unit x orthogonal to the weights of a constant; then eta1 <= eta2 if there are such "
        "weights, and eta1 >= eta2 if not",
        refuted=minima.literal_eta2,
        findings=("finding-2",),
    ),
    Statement(
        "eq:eta3firstdef",
        "equation",
        "eta3 is the least eigenvalue of Phi^T D Phi times the gap of the chain.",
        NUMBERS,
        _same(minima.eta3, "the gap without centring"),
    ),
    Statement(
        "eq:eta1firstdef",
        "equation",
        "eta1 is the least |Phi x|_Dir^2 + (mu^T Phi x)^2 over unit x.",
        NUMBERS,
        _same(minima.eta1, "without the second term"),
    ),
)

_PRELIMINARIES = (
    Statement(
        "a: markov chain",
        "assumption",
        "The chain is irreducible and aperiodic, so its powers tend to one law, which is positive.",
        "`MarkovRewardProcess.is_ergodic`, model/process.py",
        _same(equations.ergodic, "for period 2, too"),
        note="What is checked is what follows from it.",
    ),
    Statement(
        "eq: mixing",
        "equation",
        "From every start the distance to mu after t steps is at most C beta^t.",
        "`gb.mixing_constants`, theory/bounds/facts.py",
        _below(equations.geometric_mixing, "beta^(2 t)"),
        findings=("finding-19",),
    ),
    Statement(
        "eq: w*",
        "equation",
        "The relative values are the sum of (P^k - e mu^T) R over all k >= 0.",
        "`Solution.bias`, model/solve/",
        _same(equations.relative_values, "the sum begins with k = 1"),
    ),
    Statement(
        "eq: d norm",
        "equation",
        "The D-norm weighs squares by mu.",
        "`Problem.stationary_norm`, model/problem.py",
        _same(equations.stationary_norm, "weighs them evenly"),
    ),
    Statement(
        "eq: dir norm",
        "equation",
        "The squared Dirichlet seminorm is half the mean squared change in a step.",
        "`Problem.dirichlet_norm`, model/problem.py",
        _same(equations.dirichlet_norm, "without the half"),
    ),
    Statement(
        "eq: eta",
        "equation",
        "eta, the condition number of the theorems, is eta1.",
        NUMBERS,
        _same(minima.eta1, "without the second term"),
    ),
)

_ALGORITHMS = (
    Statement(
        "eq:projected_bellman_first",
        "equation",
        "W* = Pi (R + P W*), and nothing else solves it.",
        "`gb.solve`, model/solve/",
        _same(equations.bellman_equation, "without Pi"),
    ),
    Statement(
        "eq:property of W*",
        "equation",
        "D (R + P W* - W*) - mu mu^T (R + W*) = 0.",
        "`gb.solve`, model/solve/",
        _same(equations.bias_equation, "the second term is added"),
    ),
    Statement(
        "eq: tabular expected averaged reward update",
        "equation",
        "Adding a small multiple of the left side above again and again finds W*.",
        f"{PROOF}equations.py",
        _below(equations.expected_update, "the term in mu is added"),
        note="Checked with steps eta / |M|^2, with which each step shrinks the distance.",
    ),
    Statement(
        "eq: tabular stochastic averaged reward update",
        "equation",
        "With two chains the step has this mean; tabular.",
        DOUBLE_CHAIN,
        _same(equations.tabular_update, "one chain in both places"),
    ),
    Statement(
        "eq:projected_bellman_second",
        "equation",
        "Phi theta* = Pi_D Pi (R + P Phi theta*).",
        EQUATION,
        _same(equations.projected_equation, "without Pi_D"),
        findings=("finding-28",),
    ),
    Statement(
        "eq: fix point double chain",
        "equation",
        "Phi^T D (I - Pi P) Phi theta* = Phi^T D Pi R.",
        EQUATION,
        _same(equations.fixed_point_equation, "R in place of Pi R, as in the appendix"),
        findings=("finding-27",),
    ),
    Statement(
        "l: existence and uniqueness",
        "lemma",
        "This system has exactly one solution.",
        EQUATION,
        _below(equations.unique_fixed_point, "the least singular value is 1.2 eta or more"),
        findings=("finding-22",),
        note="Checked as: its least singular value is at least eta, which is positive.",
    ),
    Statement(
        "eq: linear stochastic averaged reward update",
        "equation",
        "The same step with features, by two chains.",
        DOUBLE_CHAIN,
        _same(equations.stochastic_update, "one chain in both places"),
    ),
    Statement(
        "eq: definition of f and g",
        "equation",
        "The two terms of the step of double chain.",
        DOUBLE_CHAIN,
        _same(equations.update_terms, "the sign of f"),
    ),
    Statement(
        "eq: onechain stochastic averaged reward update",
        "equation",
        "The two coupled steps of single chain, each projected onto a ball.",
        SINGLE_CHAIN,
        _same(one_chain.one_step, "no projection of theta"),
        note="The step of the package follows a plain twin along paths in its own tests.",
    ),
    Statement(
        "eq: definition of f and g in onechain case",
        "equation",
        "The terms of these steps: w in place of the features of a second chain.",
        SINGLE_CHAIN,
        _same(equations.one_chain_terms, "the sign of w"),
    ),
)

_RESULTS = (
    Statement(
        "t: linear iid",
        "theorem",
        "Double chain, independent samples, alpha <= eta / 18: e^(-alpha eta T) and noise alpha c^2 / eta.",
        BOUND,
        _below(two_chains.independent_samples, "noise divided by 324", small=True),
        findings=("finding-18",),
        note="The constant behind O is 18. The claims rate and eta-order measure its orders.",
    ),
    Statement(
        "eq: B and G def",
        "equation",
        "The constants B and G of the next theorem.",
        BOUND,
        _same(equations.drift_constants, "|theta_0 - theta*| once in B"),
    ),
    Statement(
        "t: linear markov",
        "theorem",
        "Double chain along two chains, constant steps: the same with the mixing time, B and G.",
        BOUND,
        _below(two_chains.markov_constant_steps, "a thousandth of the bound", small=True),
        corrected="the bound holds as printed; its sample complexity has a factor tau_mix besides",
        refuted=two_chains.noise_grows_with_mixing,
        findings=("finding-18", "finding-36"),
        note="The claim eta-order-markov measures the complexity and fails.",
    ),
    Statement(
        "t: linear markov with decaying stepsize",
        "theorem",
        "Double chain along two chains, steps a / (t + c0)^xi: T^-min(1, a eta) or T^-xi, up to logarithms.",
        BOUND,
        _below(
            two_chains.markov_decaying_steps,
            "a thousandth of the bound, an eighth of the sum in its proof",
            small=True,
        ),
        corrected="'sufficiently large' as numbers, tau itself in place of L_1 and a logarithm",
        findings=("finding-8", "finding-17", "finding-36"),
    ),
    Statement(
        "t: one chain constant",
        "theorem",
        "Single chain, constant steps: three terms, the last alpha G_const / (2 zeta).",
        BOUND,
        _below(
            one_chain.constant_steps,
            "a thousandth of the bound, and exponent T - tau in its proof",
            small=True,
        ),
        corrected="exponent T - tau - 1, and beta <= 1",
        findings=("finding-5", "finding-13", "finding-14", "finding-35"),
        note="Exact errors stay below 0.002 of the bound, so its printed form is not refuted; the 1 is "
        "that of the geometric sum in its proof.",
    ),
    Statement(
        "remark at line 493",
        "remark",
        "The average of rewards may be learned beside: its error adds nothing to the order.",
        "`gb.bound`, reward-estimate",
        _below(equations.reward_average, "order 1 / T^2"),
        findings=("finding-12",),
    ),
    Statement(
        "eq: reward estimation",
        "equation",
        "E(r_T - g)^2 = O(1 / T).",
        "`gb.bound`, reward-estimate",
        _below(equations.reward_average, "order 1 / T^2"),
        findings=("finding-12",),
        note="With the constant 4 r_max^2 (1 + C / (1 - beta)), for every first state.",
    ),
    Statement(
        "fig:gsplit",
        "figure",
        "2 h and the gradient have the same projection on theta - theta*.",
        "claim splitting",
        _same(equations.splitting_picture, "h in place of 2 h"),
        findings=("finding-29",),
    ),
    Statement(
        "eq:gs_update",
        "equation",
        "A noisy step along h shrinks the mean square as one along the gradient does, but for alpha^2.",
        "claim splitting",
        _same(equations.noisy_step, "twice the gradient"),
        findings=("finding-29",),
    ),
)

_COMPARISON = (
    Statement(
        "l: contraction",
        "lemma",
        "Pi T is a contraction in the D-norm, with a factor omega below 1.",
        NUMBERS,
        _below(minima.contraction, "omega^2 in place of omega"),
        refuted=minima.no_contraction,
        findings=("finding-1",),
        note="The inequality holds with omega <= 1, which is not a contraction.",
    ),
    Statement(
        "remark at line 739",
        "remark",
        "The condition number of another paper, a least y^T D (I - P) y, is below eta3.",
        NUMBERS,
        _same(minima.centred_energy, "a multiple of mu is taken from y, not a constant"),
        corrected="y^T D (I - P) y does not depend on the mean of y, but eta3 may be the smaller one",
        refuted=minima.eta3_is_not_greater,
        findings=("finding-31", "finding-40"),
        note="To the letter the other minimum is 0, at y = -e, and the remark says nothing.",
    ),
    Statement(
        "l: condition number",
        "lemma",
        "eta1 is at least mu_min / (n mu_max |mu|^2) times eta2.",
        NUMBERS,
        _below(minima.tabular_order, "without the minimum, and twice that"),
        corrected="for tabular features, and with min(1, eta2 / (n mu_max |mu|^2)) in place of the quotient",
        refuted=minima.tabular_disorder,
        findings=("finding-3",),
    ),
    Statement(
        "lemma at line 799",
        "lemma",
        "Minima of a quadratic form over two planes, and in two norms, differ by at most these factors.",
        f"{PROOF}minima.py",
        _below(minima.weighted_minima, "the first inequality the other way round"),
        note="Of its second part 0 <= 0 <= 0 is left if A e = 0, as it supposes; checked without that.",
    ),
    Statement(
        "l:condition_number_2_eta1_eta3",
        "lemma",
        "eta1 >= eta3 / 2.",
        NUMBERS,
        _below(minima.half_of_eta3, "eta1 >= eta3"),
        findings=("finding-3",),
    ),
    Statement(
        "l: radius and condition",
        "lemma",
        "The printed projection radius has R^2 >= 2 r_max^2 C^2 / ((1 - beta)^2 eta3).",
        "`gb.projection_radii`, theory/bounds/facts.py",
        _below(minima.printed_radius, "4 (1 + omega) in place of 2"),
        findings=("finding-4",),
        note="True, and a lower bound: it does not support note 7 of the table, which needs an upper one.",
    ),
)

_DOUBLE = (
    Statement(
        "eq: ft",
        "equation",
        "theta_t is known once the states before time t are.",
        f"{PROOF}equations.py",
        _same(equations.state_known, "known one state earlier, as printed"),
        corrected="once those up to time t are",
        refuted=equations.state_not_known,
        findings=("finding-9",),
    ),
    Statement(
        "eq: fg expectation",
        "equation",
        "The mean update, by theta and by theta - theta*.",
        DOUBLE_CHAIN,
        _same(equations.mean_field, "the sign of the term in mu"),
    ),
    Statement(
        "l: bound on f and g linear",
        "lemma",
        "|f| <= |theta - theta*| + c and |g| <= twice that, with c = r_max + |theta*|.",
        f"{PROOF}updates.py",
        _below(updates.two_chain_lengths, "|g| once that"),
    ),
    Statement(
        "l: lipschitz f and g",
        "lemma",
        "f is 1-Lipschitz and g 2-Lipschitz in theta.",
        f"{PROOF}updates.py",
        _below(updates.two_chain_lipschitz, "g is 1-Lipschitz"),
    ),
    Statement(
        "l: gradient splitting",
        "lemma",
        "<theta, h(theta)> is half of <theta, gradient of |Phi theta|_Dir^2>, and |Phi theta|_Dir^2.",
        "claim splitting",
        _same(equations.gradient_splitting, "without the half"),
    ),
    Statement(
        "l: all parts bound",
        "lemma",
        "With steps up to the limit, E|theta_t - theta*|^2 never exceeds B^2.",
        f"{PROOF}two_chains.py",
        _below(two_chains.stays_within, "B = |theta_0 - theta*| / 2", small=True),
    ),
    Statement(
        "l: markov noise",
        "lemma",
        "Noise along the chain is at most a multiple of alpha tau, for t >= tau.",
        f"{PROOF}two_chains.py",
        _below(two_chains.noise_of_constant_steps, "alpha^2 in place of alpha", small=True),
    ),
    Statement(
        "l: markov noise induction",
        "lemma",
        "The same as long as the error was below B^2 so far.",
        f"{PROOF}two_chains.py",
        _below(two_chains.noise_of_constant_steps, "alpha^2 in place of alpha", small=True),
    ),
    Statement(
        "theorem at line 1489",
        "theorem",
        "The theorem for decaying steps with its constants.",
        BOUND,
        _below(
            two_chains.markov_decaying_steps,
            "a thousandth of the bound, an eighth of the sum in its proof",
            small=True,
        ),
        corrected="tau itself in place of L_1 and a logarithm; c0 grows with T",
        findings=("finding-8", "finding-17"),
    ),
    Statement(
        "l: sum alpha bound",
        "lemma",
        "There is a c0, from a and xi alone, with which sums of steps over the mixing time are small.",
        "theory/bounds/record.py",
        _below(step_sums.sums_along_mixing, "half of the c0 that it takes"),
        corrected="tau in place of L_1 and a logarithm; c0 depends on the chain and on T, too",
        refuted=step_sums.offset_depends_on_time,
        findings=("finding-8", "finding-17"),
    ),
    Statement(
        "l: theta difference decaying",
        "lemma",
        "Steps of sum S <= 1/12 lead at most 6 (|theta| + r_max + 2 |theta*|) S away; 12 from the last one.",
        f"{PROOF}updates.py",
        _below(updates.steps_lead_not_far, "a third of both bounds"),
    ),
    Statement(
        "l: markov noise decaying",
        "lemma",
        "With decaying steps, noise is at most (880 E|delta|^2 + 304 c^2) times the last tau steps.",
        f"{PROOF}two_chains.py",
        _below(two_chains.noise_of_decaying_steps, "a ten-thousandth of both bounds", small=True),
        note="And 448, 160 for f; c = r_max + 3 |theta*|.",
    ),
    Statement(
        "l: dynamic system with decaying stepsize",
        "lemma",
        "A recursion driven by steps stays below 2 c2 / (c1 (t + c0)^xi).",
        f"{PROOF}step_sums.py",
        _below(step_sums.driven_recursion, "half of the bound"),
        corrected="if besides c1 c2 <= (tau + c0)^xi",
        refuted=step_sums.recursion_needs_small_steps,
        findings=("finding-15", "finding-38"),
    ),
)

_SINGLE = (
    Statement(
        "eq: barf_onechain",
        "equation",
        "The mean of phi(s) - w is w* - w.",
        SINGLE_CHAIN,
        _same(equations.one_chain_mean_of_features, "w* is the plain mean of the rows"),
    ),
    Statement(
        "eq: barg_onechain",
        "equation",
        "The mean of g of single chain, at any w and theta.",
        SINGLE_CHAIN,
        _same(equations.one_chain_mean, "the term in w is added"),
    ),
    Statement(
        "eq: theta_star_onechain",
        "equation",
        "This mean is 0 at w* and theta*.",
        SINGLE_CHAIN,
        _same(equations.one_chain_rest, "at w = 0"),
        findings=("finding-27",),
    ),
    Statement(
        "l: delta bound one chain constant",
        "lemma",
        "|w_t| <= 1 and |w_t - w*| <= 2 at all times.",
        f"{PROOF}updates.py",
        _below(updates.mean_stays_in_ball, "beta = 1.5"),
        corrected="if |w_0| <= 1 and beta <= 1, or R_w = 1",
        refuted=updates.mean_leaves_ball,
        findings=("finding-35", "finding-39"),
    ),
    Statement(
        "l: bound on f and g onechain",
        "lemma",
        "|f| <= 2 and |g| <= 2 r_max + 6 R_theta.",
        f"{PROOF}updates.py",
        _below(updates.one_chain_lengths, "half of both bounds"),
        findings=("finding-16",),
        note="On the ball of the lemma before; checked for |theta| <= 2 R_theta.",
    ),
    Statement(
        "l: lipschitz of f and g one chain",
        "lemma",
        "f is 1-Lipschitz in w; g 3-Lipschitz in theta and (r_max + 2 R_theta)-Lipschitz in w, everywhere.",
        f"{PROOF}updates.py",
        _below(updates.one_chain_lipschitz, "2-Lipschitz in theta"),
        corrected="for |w| <= 1 and |theta| <= 2 R_theta only",
        refuted=updates.not_lipschitz_for_all,
        findings=("finding-6", "finding-39"),
    ),
    Statement(
        "theorem at line 2271",
        "theorem",
        "The theorem for single chain with constant steps again.",
        BOUND,
        _below(
            one_chain.constant_steps,
            "a thousandth of the bound, and exponent T - tau in its proof",
            small=True,
        ),
        corrected="exponent T - tau - 1, and beta <= 1",
        findings=("finding-5", "finding-13", "finding-14", "finding-35"),
    ),
    Statement(
        "l: markov noise one chain",
        "lemma",
        "Noise is at most 44 alpha tau (r_max + 3 R_theta)^2, for t >= tau.",
        f"{PROOF}one_chain.py",
        _below(one_chain.noise_of_constant_steps, "0.02 in place of 44", small=True),
        note="With |w| <= 1.",
    ),
    Statement(
        "l: bound on delta w",
        "lemma",
        "E|w_t - w*|^2 <= 4 e^(-2 beta (t - tau)) + (16 tau + 6) beta.",
        f"{PROOF}one_chain.py",
        _below(one_chain.mean_of_constant_steps, "a fiftieth of the bound", small=True),
        corrected="if beta <= 1",
        refuted=one_chain.mean_diverges,
        findings=("finding-35",),
    ),
    Statement(
        "t: one chain",
        "theorem",
        "Single chain, steps a / (t + c0)^xi: T^(-a c1) or T^-xi, up to logarithms.",
        BOUND,
        _below(
            one_chain.decaying_steps,
            "a ten-thousandth of the bound, half of the sums in its proof",
            small=True,
        ),
        corrected="as in `gb.bound`: tau of the smaller step, another integral, small first steps",
        findings=("finding-7", "finding-8", "finding-11", "finding-15", "finding-34", "finding-35"),
        note="Exact errors stay below 0.002 of the bound, so its printed form is not refuted; the 1 is "
        "that of the sums in its proof.",
    ),
    Statement(
        "l: markov noise one chain decaying",
        "lemma",
        "Noise is at most (28 + 8 rho_0) (r_max + 3 R_theta)^2 times the sum of the last tau steps.",
        f"{PROOF}one_chain.py",
        _below(one_chain.decaying_noise, "a quarter of the constant", small=True),
        findings=("finding-6", "finding-16", "finding-41"),
        note="The printed proof does not give it, but lengths of R_theta in place of twice that do. Exact "
        "noise stays below 0.0005 of it.",
    ),
    Statement(
        "l: bound on delta w decaying",
        "lemma",
        "E|w_t - w*|^2 with decaying steps, in four cases.",
        f"{PROOF}one_chain.py",
        _below(one_chain.mean_of_decaying_steps, "a thousandth of the bounds", small=True),
        corrected="for steps of w of at most 1/2, c0 >= 1 and c_0_1; tau in place of L_1 and a logarithm",
        refuted=one_chain.mean_bound_is_negative,
        findings=("finding-7", "finding-8", "finding-35", "finding-38"),
    ),
    Statement(
        "l: super linear",
        "lemma",
        "A sum of products of steps is below an exponential of integrals of the steps.",
        f"{PROOF}step_sums.py",
        _below(step_sums.overlapping_sums, "half of the bound"),
        corrected="the first integral from tau - 1 to T - 1, and no negative factors",
        refuted=step_sums.overlap_is_larger,
        findings=("finding-34", "finding-35"),
    ),
)

_NUMERICAL = (
    Statement(
        "table: parameters",
        "table",
        "Features, step sizes, steps and smoothing of the fifteen tasks.",
        "`gb.TASKS`, tasks/paper.py",
        findings=("finding-23",),
        untestable="settings of an experiment, not a statement; our tasks use them",
    ),
    Statement(
        "table: quality-vstar-compare-all",
        "table",
        "Last errors of four methods on fifteen tasks, means of three runs.",
        "`gainbias reproduce`",
        findings=("finding-23", "finding-24", "finding-26"),
        untestable="seeds, policies and features of its runs are not given; the study of the paper compares",
    ),
    Statement(
        "figure at line 3282",
        "figure",
        "Learning curves of the same runs.",
        "`gainbias reproduce`",
        findings=("finding-26",),
        untestable="the source has no pictures, and no numbers behind them",
    ),
    Statement(
        "table: condition numbers",
        "table",
        "eta1, eta2 and eta3 of the fifteen tasks.",
        NUMBERS,
        refuted=minima.printed_condition_numbers,
        findings=("finding-2", "finding-24"),
        note="With eta2 of the paper it is taken from. The printed eta2 can give such numbers.",
    ),
)

STATEMENTS: tuple[Statement, ...] = (
    *_INTRODUCTION,
    *_PRELIMINARIES,
    *_ALGORITHMS,
    *_RESULTS,
    *_COMPARISON,
    *_DOUBLE,
    *_SINGLE,
    *_NUMERICAL,
)
