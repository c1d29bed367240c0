"""Tables laid out for reading: the paper's, and the page of findings, as Markdown and LaTeX."""
