"""What users see: tables, figures, verdicts and pages, made only from stored results.

Start reading in `claims`, `sweep` or `reproduction`: each writes the files of one kind of results folder. A
reproduction of the paper's study has the most, so `paper_tables` and `verdicts_page` make its tables and its
verdicts. `write` has `write_page`, which writes only the page, of a folder or of an estimate; `text` turns
numbers and tables into text for all of them.

Behind them are three rooms. `data` reads results and computes what is shown. `figures` and `pages` have what
all figures and all pages share, and those of the paper's study and of estimates.

Users import `write_page` and `plot` from `gainbias`; the command line imports the writers.
"""
