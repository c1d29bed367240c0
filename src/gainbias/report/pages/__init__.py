"""Interactive pages: each is one HTML file that needs no server and no internet.

Start reading in `frame`, which puts all of a page into one file; `paper_study`, `estimate` and `series` each
make one page, as do `report.sweep` and `report.claims`. Of the scripts in ``assets``, ``common.js`` holds
what the others share. Writers of the report import from here; users have `gainbias.write_page`.
"""
