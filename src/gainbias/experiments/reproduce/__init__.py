"""The paper's study, rebuilt: fifteen tasks and three protocols.

Start reading in `reproduce`, the function; `protocols` says which methods are run and how, and `instance` is
the unit of work. The report imports titles and order of the methods from `protocols`.
"""
