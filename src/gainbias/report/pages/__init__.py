"""Interactive pages: each is one HTML file that needs neither a server nor a network.

Start reading in `frame`, which puts all of a page into one file; `paper_study`, `estimate` and `series` each
make one page, as do `report.sweep` and `report.claims`. Among the scripts in ``assets``, ``common.js`` has
what the others share. Writers of the report import from here; users have `gainbias.write_page`.
"""
