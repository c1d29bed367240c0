"""The paper's study, rebuilt: fifteen tasks and three protocols.

Start reading in `reproduce`; `instance` holds the unit of work, one instance of one task, and the protocols.
"""
