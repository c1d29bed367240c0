"""What people see: tables, figures and verdicts, made from stored results and nothing else."""

try:
    import pandas as _pandas
except ImportError as error:
    raise ImportError("reports need pandas: pip install 'gainbias[report,data]'") from error
del _pandas
