"""Tables laid out for reading, as Markdown and LaTeX.

Start reading in `layout`, which has the `Sheet` that every table becomes. `paper` and `findings` are about
the paper's study, `sweeps` and `claims` about the other two kinds of results.
"""
