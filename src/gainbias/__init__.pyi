from gainbias.algorithms.algorithm import Algorithm as Algorithm
from gainbias.algorithms.algorithm import Form as Form
from gainbias.algorithms.registry import ALGORITHMS as ALGORITHMS
from gainbias.engine.run import run as run
from gainbias.engine.schedules import Constant as Constant
from gainbias.engine.schedules import Harmonic as Harmonic
from gainbias.engine.schedules import Polynomial as Polynomial
from gainbias.engine.trace import Outcome as Outcome
from gainbias.engine.trace import Trace as Trace
from gainbias.features import Tabular as Tabular
from gainbias.features import normalise_features as normalise_features
from gainbias.model.conditioning import ConditionNumbers as ConditionNumbers
from gainbias.model.deviation import deviation as deviation
from gainbias.model.deviation import deviation_matrix as deviation_matrix
from gainbias.model.deviation import kemeny_constant as kemeny_constant
from gainbias.model.mixing import mixing_time as mixing_time
from gainbias.model.mixing import mixing_time_bounds as mixing_time_bounds
from gainbias.model.problem import Problem as Problem
from gainbias.model.process import MarkovRewardProcess as MarkovRewardProcess
from gainbias.model.solution import ConvergenceError as ConvergenceError
from gainbias.model.solution import MultichainSolution as MultichainSolution
from gainbias.model.solution import Solution as Solution
from gainbias.model.solve import solve as solve
from gainbias.model.spectrum import second_eigenvalue_modulus as second_eigenvalue_modulus
from gainbias.model.spectrum import spectral_gap as spectral_gap
from gainbias.model.structure import Structure as Structure

__version__: str
