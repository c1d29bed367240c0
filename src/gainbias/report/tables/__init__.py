"""Tables of the paper's study, laid out for reading.

Start reading in `paper`: its three tables with our numbers beside the printed ones, and the summary.
`findings` is the page of verdicts, as Markdown. `report.text` has the `Sheet` that every table becomes.
"""
