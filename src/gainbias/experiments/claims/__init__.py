"""The paper's headline claims, put to the test: one small file for each claim."""
