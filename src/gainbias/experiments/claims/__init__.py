"""The paper's headline claims, put to the test: one small module for each question.

Start reading in `claim`, which says what a claim is and how a verdict follows; `registry` lists all claims
and has `check_claims`, which measures them. `measuring` holds what the claims share. The report imports
`ClaimResult` and what belongs to it from `claim`, and nothing else.
"""
