"""What people see: tables, figures, verdicts and pages, made from stored results and nothing else.

Start reading in `study`, `sweep` or `claims`: each writes the files of one kind of results folder. `write`
has `write_page`, the page alone, of a folder or of an estimate. They put together what four rooms make:
`data` reads results and computes what is shown, `tables` lays it out, `figures` draws it, and `pages` makes
interactive HTML. `text` writes numbers and tables down for all of them.

Users import `write_page` and `plot` from `gainbias`; the command line imports the writers.
"""
