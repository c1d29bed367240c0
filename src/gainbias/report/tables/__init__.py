"""Tables laid out for reading.

Start reading in `paper`, the tables of the paper's study; `findings` is its page of verdicts. `sweeps` is
about sweeps. All are a `Sheet` of `report.text`, or Markdown.
"""
