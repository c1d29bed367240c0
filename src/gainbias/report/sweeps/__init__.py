"""What people see of a sweep: words on a terminal, tables, figures and the interactive page."""
