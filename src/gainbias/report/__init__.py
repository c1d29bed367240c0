"""What people see: tables, figures and verdicts, made from stored results and nothing else."""
