"""Tables laid out for reading.

Start reading in `paper`, the tables of the paper's study; `findings` is its page of verdicts. `sweeps` and
`claims` are about the other two kinds of results. All are a `Sheet` of `report.text`, or Markdown.
"""
