"""What is true: Markov reward processes, their structure and their exact long-run values.

Start reading in `process`: a `MarkovRewardProcess` is what everything else takes. `checks` and `builders`
make its arrays, `structure` finds its classes and periods. The room `solve` computes gain and bias, the
room `chain` mixing times and eigenvalues. `problem` adds features to a process: what a linear method can
learn, and how hard that is (`conditioning`). Other rooms import from these modules directly.
"""
