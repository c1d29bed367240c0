"""Interactive pages: each is one HTML file that needs no server and no internet.

Start reading in `frame`, which puts all of a page into one file; `study`, `sweep` and `estimate`
each make one page. Of the scripts in ``assets``, ``common.js`` holds what the others share. Writers of the
report import from here; users have `gainbias.write_page`.
"""
